#include "apiserver/interposed_server.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "apiserver/api_server.h"

namespace pitcrew::testing {
namespace {

template <class T>
T OrEnd(base::Result<T> result) {
  if (!result) {
    fmt::print(stderr, "no server before the API server: {}\n", result.error().ToString());
    std::exit(1);
  }
  return *std::move(result);
}

std::string HeaderOf(const ScriptedRequest& request, std::string_view name) {
  for (const auto& [header, value] : request.headers) {
    if (header == name) return value;
  }
  return "";
}

}  // namespace

InterposedServer::InterposedServer(TakeOver take_over)
    : take_over_(std::move(take_over)),
      http_(OrEnd(io::HttpClient::Create())),
      server_(OrEnd(ScriptedServer::Start(
          [this](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
            if (!take_over_(request, reply, stop)) Forward(request, reply, stop);
          }))) {}

std::shared_ptr<kube::Client> InterposedServer::MakeClient() const {
  return OrEnd(kube::Client::Create({.server = server_->url()}));
}

void InterposedServer::Forward(const ScriptedRequest& request, ScriptedReply& reply,
                               const io::StopToken& stop) const {
  const ApiServer& behind = ApiServer::Shared();
  io::HttpRequest forwarded;
  forwarded.method = request.method;
  forwarded.url = behind.url() + request.path;
  if (!request.query.empty()) forwarded.url += "?" + request.query;
  forwarded.headers = {{"Authorization", "Bearer " + behind.admin_token()},
                       {"Accept", HeaderOf(request, "accept")}};
  if (const auto type = HeaderOf(request, "content-type"); !type.empty()) {
    forwarded.headers.push_back({"Content-Type", type});
  }
  forwarded.body = request.body;
  io::TlsSettings tls;
  tls.ca_pem = behind.ca_pem();
  forwarded.tls = std::make_shared<const io::TlsSettings>(std::move(tls));
  forwarded.deadline = base::Deadline::Never();  // its client's counts
  const auto answer = http_->Open(std::move(forwarded), stop);
  if (!answer) return reply.Abort();
  const io::HttpResponse& head = (*answer)->head();
  ScriptedReply::Headers headers;
  if (const auto after = head.header("retry-after")) headers.emplace_back("Retry-After", *after);
  reply.Begin(head.status, headers);
  while (true) {
    const auto chunk = (*answer)->Next();
    if (!chunk) return reply.Abort();
    if (!*chunk) return reply.End();
    reply.Chunk(**chunk);
  }
}

}  // namespace pitcrew::testing
