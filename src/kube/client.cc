#include "kube/client.h"

#include <fmt/format.h>

#include <mutex>
#include <random>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "codec/base64.h"
#include "kube/credentials.h"
#include "kube/projection.h"

namespace pitcrew::kube {

using codec::Json;

struct Client::Implementation {
  Implementation(Config config_in, ClientOptions options_in,
                 std::unique_ptr<io::HttpClient> http_in)
      : config(std::move(config_in)), options(std::move(options_in)), http(std::move(http_in)) {}

  base::Result<io::HttpRequest> Build(const Request& request, const io::StopToken& stop);
  std::shared_ptr<const io::TlsSettings> Tls(const Credentials& credentials);
  base::Result<io::HttpResponse> SendInTurn(io::HttpRequest request, CallPace* pace,
                                            const io::StopToken& stop);
  void Count(const std::string& verb, int status);
  double Random();

  const Config config;
  const ClientOptions options;
  const std::unique_ptr<io::HttpClient> http;

  std::mutex mutex;
  RequestCounts counts;
  // Made anew only when the client certificate changes, because connections are shared by it.
  std::shared_ptr<const io::TlsSettings> tls;
  std::mt19937 random{std::random_device{}()};
};

namespace {

std::string Describe(const Request& request) {
  return fmt::format("{} {}", request.verb, request.path);
}

base::Result<Json> ParseAnswer(base::Result<std::string> body, const Request& request) {
  if (!body) return base::Fail(std::move(body).error());
  auto value = codec::ParseJson(*body, "answer");
  if (!value) return base::Fail(value.error().Within(Describe(request)));
  return value;
}

// Of an answer that refuses a stream, so much is read.
constexpr std::size_t kLongestRefusal = 65536;

bool IsSuccess(const io::HttpResponse& answer) {
  return answer.status >= 200 && answer.status < 300;
}

Outcome OutcomeOf(const io::HttpResponse& head, std::string_view body, const Request& request) {
  Outcome outcome{.http_status = head.status,
                  .error = ErrorFromStatus(head.status, body, Describe(request))};
  if (const auto after = head.header("retry-after")) outcome.retry_after = ParseRetryAfter(*after);
  return outcome;
}

base::Result<base::Deadline> DeadlineOfTry(const CallLimits& limits, const Request& request) {
  if (!limits.deadline.passed()) {
    return std::min(limits.deadline, base::Deadline::After(limits.timeout));
  }
  return base::Fail({base::Code::kTimeout, "DeadlinePassed",
                     fmt::format("{}: no time is left for it", Describe(request))});
}

// A try that could only begin when nobody waits for it any more is none.
bool EndsBefore(const CallLimits& limits, std::chrono::milliseconds delay) {
  return delay >= limits.deadline.left();
}

base::Status WaitBeforeTry(std::chrono::milliseconds delay, const Request& request,
                           const base::Error& error, const io::StopToken& stop) {
  base::LogDebug("request is tried again",
                 {{"request", Describe(request)}, {"error", error.ToString()}});
  if (!stop.WaitFor(delay)) return {};
  return base::Fail({base::Code::kCancelled, "Stopped", error.message});
}

}  // namespace

std::shared_ptr<const io::TlsSettings> Client::Implementation::Tls(const Credentials& credentials) {
  const std::scoped_lock lock(mutex);
  if (tls == nullptr || tls->client_certificate_pem != credentials.client_certificate_pem ||
      tls->client_key_pem != credentials.client_key_pem) {
    tls = std::make_shared<const io::TlsSettings>(
        io::TlsSettings{.ca_pem = config.ca_pem,
                        .ca_file = config.ca_file,
                        .insecure_skip_verify = config.insecure_skip_tls_verify,
                        .client_certificate_pem = credentials.client_certificate_pem,
                        .client_key_pem = credentials.client_key_pem});
  }
  return tls;
}

base::Result<io::HttpRequest> Client::Implementation::Build(const Request& request,
                                                            const io::StopToken& stop) {
  auto current = config.credentials->Current(stop);
  if (!current) return base::Fail(CredentialProblem(std::move(current).error()));
  const Credentials credentials = *std::move(current);
  io::HttpRequest built;
  built.method = request.method;
  built.url = config.server + request.target();
  // A server that cannot leave the rest out sends whole objects.
  built.headers = {{"Accept", request.metadata_only
                                  ? "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
                                    "application/json"
                                  : "application/json"},
                   {"User-Agent", options.user_agent}};
  if (!request.content_type.empty()) {
    built.headers.push_back({"Content-Type", request.content_type});
  }
  if (!credentials.bearer_token.empty()) {
    built.headers.push_back({"Authorization", "Bearer " + credentials.bearer_token});
  } else if (!credentials.user_name.empty()) {
    built.headers.push_back(
        {"Authorization",
         "Basic " + codec::EncodeBase64(credentials.user_name + ":" + credentials.password)});
  }
  built.body = request.body;
  built.tls = Tls(credentials);
  built.tls_server_name = config.tls_server_name;
  built.proxy_url = config.proxy_url;
  return built;
}

base::Result<io::HttpResponse> Client::Implementation::SendInTurn(io::HttpRequest request,
                                                                  CallPace* pace,
                                                                  const io::StopToken& stop) {
  if (pace == nullptr) return http->Send(std::move(request), stop);
  auto turn = pace->Begin();
  const auto begun = base::SteadyClock::now();
  auto answer = http->Send(std::move(request), stop);
  if (answer ? answer->status == 429 || answer->status == 503
             : answer.error().code == base::Code::kTimeout) {
    turn.Refused();
  } else if (answer) {
    turn.Answered(base::SteadyClock::now() - begun);
  }
  return answer;
}

void Client::Implementation::Count(const std::string& verb, int status) {
  const std::scoped_lock lock(mutex);
  ++counts[{verb, status}];
}

double Client::Implementation::Random() {
  const std::scoped_lock lock(mutex);
  return std::uniform_real_distribution<double>(0.0, 1.0)(random);
}

base::Result<std::shared_ptr<Client>> Client::Create(Config config, ClientOptions options) {
  if (config.credentials == nullptr) config.credentials = StaticCredentials({});
  TRY_ASSIGN(auto http, io::HttpClient::Create());
  return std::shared_ptr<Client>(new Client(
      std::make_unique<Implementation>(std::move(config), std::move(options), std::move(http))));
}

Client::Client(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
Client::~Client() = default;

const Config& Client::config() const { return implementation_->config; }

Client::RequestCounts Client::request_counts() const {
  const std::scoped_lock lock(implementation_->mutex);
  return implementation_->counts;
}

base::Result<std::string> Client::Send(const Request& request, const io::StopToken& stop) {
  return Send(request, implementation_->options.limits, stop);
}

base::Result<std::string> Client::Send(const Request& request, const CallLimits& limits,
                                       const io::StopToken& stop) {
  Implementation& self = *implementation_;
  bool asked_again = false;  // with fresh credentials, after a 401
  for (int attempt = 1;; ++attempt) {
    TRY_ASSIGN(auto built, self.Build(request, stop));
    TRY_ASSIGN(built.deadline, DeadlineOfTry(limits, request));
    built.suspect_after = limits.suspect_after;
    auto answer = self.SendInTurn(std::move(built), limits.pace, stop);
    Outcome outcome;
    if (answer) {
      self.Count(request.verb, answer->status);
      if (IsSuccess(*answer)) return std::move(answer->body);
      outcome = OutcomeOf(*answer, answer->body, request);
    } else {
      if (answer.error().code == base::Code::kCancelled) return base::Fail(answer.error());
      self.Count(request.verb, 0);
      outcome.error = answer.error().Within(Describe(request));
    }
    if (outcome.http_status == 401 && !asked_again) {
      asked_again = true;
      self.config.credentials->Reject();
      continue;
    }
    const auto delay = NextTry(limits.retry, request, outcome, attempt, self.Random());
    if (!delay || EndsBefore(limits, *delay)) return base::Fail(std::move(outcome.error));
    TRY(WaitBeforeTry(*delay, request, outcome.error, stop));
  }
}

base::Result<std::unique_ptr<io::HttpStream>> Client::OpenStream(const Request& request,
                                                                 std::chrono::milliseconds timeout,
                                                                 const io::StopToken& stop) {
  Implementation& self = *implementation_;
  for (int attempt = 1;; ++attempt) {
    TRY_ASSIGN(auto built, self.Build(request, stop));
    built.deadline = base::Deadline::After(timeout);
    built.idle_timeout = self.options.watch_silence;
    auto stream = self.http->Open(std::move(built), stop);
    if (!stream) {
      if (stream.error().code != base::Code::kCancelled) self.Count(request.verb, 0);
      return base::Fail(stream.error().Within(Describe(request)));
    }
    const io::HttpResponse& head = (*stream)->head();
    self.Count(request.verb, head.status);
    if (IsSuccess(head)) return stream;
    if (head.status == 401) self.config.credentials->Reject();
    std::string body;
    while (body.size() < kLongestRefusal) {
      const auto chunk = (*stream)->Next();
      if (!chunk || !*chunk) break;
      body += **chunk;
    }
    Outcome outcome = OutcomeOf(head, body, request);
    const auto delay = outcome.retry_after ? NextTry(self.options.limits.retry, request, outcome,
                                                     attempt, self.Random())
                                           : std::nullopt;
    if (!delay) return base::Fail(std::move(outcome.error));
    stream->reset();
    TRY(WaitBeforeTry(*delay, request, outcome.error, stop));
  }
}

base::Result<Json> Client::Get(const ResourceKind& kind, const ObjectKey& key,
                               const io::StopToken& stop) {
  const Request request = GetRequest(kind, key);
  return ParseAnswer(Send(request, stop), request);
}

base::Result<ObjectList> Client::List(const ResourceKind& kind, std::string_view namespace_name,
                                      const ListOptions& options, const io::StopToken& stop) {
  constexpr int kRestarts = 3;  // a list that expires again and again is too slow for its server
  ObjectList list;
  std::string continue_token;
  int restarts = 0;
  for (;;) {
    const Request request = ListRequest(kind, namespace_name, options, continue_token);
    auto page = ParseAnswer(Send(request, stop), request);
    if (!page) {
      const bool expired = page.error().code == base::Code::kGone && !continue_token.empty();
      if (!expired || ++restarts > kRestarts) return base::Fail(std::move(page).error());
      list = {};
      continue_token.clear();
      continue;
    }
    if (auto items = page->find("items"); items != page->end() && items->is_array()) {
      for (Json& item : *items) {
        // Items of built-in kinds come without their type.
        if (!item.contains("kind")) item["kind"] = kind.kind;
        if (!item.contains("apiVersion")) item["apiVersion"] = kind.api_version();
        list.items.push_back(std::move(item));
      }
    }
    list.resource_version = codec::FindString(*page, {"metadata", "resourceVersion"});
    continue_token = codec::FindString(*page, {"metadata", "continue"});
    if (continue_token.empty()) return list;
  }
}

base::Result<Json> Client::Create(const ResourceKind& kind, const Json& object,
                                  const WriteOptions& options, const io::StopToken& stop) {
  TRY_ASSIGN(const Request request, CreateRequest(kind, object, options));
  return ParseAnswer(Send(request, stop), request);
}

base::Result<Json> Client::Update(const ResourceKind& kind, const Json& object,
                                  const WriteOptions& options, const io::StopToken& stop) {
  TRY_ASSIGN(const Request request, UpdateRequest(kind, object, options));
  return ParseAnswer(Send(request, stop), request);
}

base::Result<Json> Client::Patch(const ResourceKind& kind, const ObjectKey& key, PatchType type,
                                 const Json& patch, const WriteOptions& options,
                                 const io::StopToken& stop) {
  const Request request = PatchRequest(kind, key, type, patch, options);
  return ParseAnswer(Send(request, stop), request);
}

base::Result<std::string> Client::PatchVersion(const ResourceKind& kind, const ObjectKey& key,
                                               PatchType type, const Json& patch,
                                               const WriteOptions& options,
                                               const io::StopToken& stop, CallPace* pace) {
  Request request = PatchRequest(kind, key, type, patch, options);
  request.metadata_only = true;
  CallLimits limits = implementation_->options.limits;
  limits.pace = pace;
  TRY_ASSIGN(std::string answer, Send(request, limits, stop));
  answer.reserve(answer.size() + kReadablePadding);
  auto version = ReadResourceVersion(answer);
  if (!version) return base::Fail(version.error().Within(Describe(request)));
  return version;
}

base::Result<Json> Client::Apply(const ResourceKind& kind, const Json& object,
                                 const WriteOptions& options, const io::StopToken& stop) {
  TRY_ASSIGN(const Request request, ApplyRequest(kind, object, options));
  return ParseAnswer(Send(request, stop), request);
}

base::Status Client::Delete(const ResourceKind& kind, const ObjectKey& key,
                            const DeleteOptions& options, const io::StopToken& stop) {
  TRY(Send(DeleteRequest(kind, key, options), stop));
  return {};
}

base::Result<std::string> Client::GetRaw(std::string_view path_and_query,
                                         const io::StopToken& stop) {
  return Send(RawRequest(path_and_query), stop);
}

base::Result<ServerVersion> Client::Version(const io::StopToken& stop) {
  const Request request = RawRequest("/version");
  TRY_ASSIGN(const Json answer, ParseAnswer(Send(request, stop), request));
  // Some providers write "35+".
  const auto number = [&](std::string_view name) {
    std::string text = codec::FindString(answer, {name});
    while (!text.empty() && (text.back() < '0' || text.back() > '9')) text.pop_back();
    return static_cast<int>(base::ParseUnsigned(text).value_or(0));
  };
  return ServerVersion{.major = number("major"),
                       .minor = number("minor"),
                       .git_version = codec::FindString(answer, {"gitVersion"})};
}

base::Result<bool> Client::Serves(const ResourceKind& kind, const io::StopToken& stop) {
  const std::string path = kind.group.empty()
                               ? fmt::format("/api/{}", kind.version)
                               : fmt::format("/apis/{}/{}", kind.group, kind.version);
  const Request request = RawRequest(path);
  const auto answer = ParseAnswer(Send(request, stop), request);
  if (!answer) {
    if (answer.error().reason == "ResourceNotServed") return false;
    return base::Fail(answer.error());
  }
  const Json* resources = codec::Find(*answer, {"resources"});
  if (resources == nullptr || !resources->is_array()) return false;
  for (const Json& resource : *resources) {
    if (codec::FindString(resource, {"name"}) == kind.plural) return true;
  }
  return false;
}

}  // namespace pitcrew::kube
