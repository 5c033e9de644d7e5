#include "snapshot/live.h"

#include <utility>
#include <vector>

#include "kube/config.h"
#include "kube/request.h"
#include "snapshot/trim.h"

namespace pitcrew::snapshot {
namespace {

using codec::Json;

// All pages of a list, each trimmed before the next one is asked for: the whole objects of a large
// fleet never stand in memory together.
base::Result<std::vector<Json>> ReadPages(kube::Client& client, const Query& query,
                                          const io::StopToken& stop) {
  constexpr int kRestarts = 3;  // a list that expires again and again is too slow for its server
  const kube::ListOptions options{.label_selector = query.label_selector,
                                  .field_selector = query.field_selector};
  std::vector<Json> objects;
  std::string continue_token;
  int restarts = 0;
  for (;;) {
    const auto answer = client.Send(
        kube::ListRequest(query.kind, query.namespace_name, options, continue_token), stop);
    if (!answer) {
      const bool expired = answer.error().code == base::Code::kGone && !continue_token.empty();
      if (!expired || ++restarts > kRestarts) return base::Fail(answer.error());
      objects.clear();
      continue_token.clear();
      continue;
    }
    TRY_ASSIGN(Json page, codec::ParseJson(*answer, query.kind.plural));
    if (auto items = page.find("items"); items != page.end() && items->is_array()) {
      for (Json& item : *items) {
        // Items of built-in kinds come without their type.
        if (!item.contains("kind")) item["kind"] = query.kind.kind;
        if (!item.contains("apiVersion")) item["apiVersion"] = query.kind.api_version();
        Trim(item);
        if (query.trim != nullptr) query.trim(item);
        objects.push_back(std::move(item));
      }
    }
    continue_token = codec::FindString(page, {"metadata", "continue"});
    if (continue_token.empty()) return objects;
  }
}

bool EndsEverything(const base::Error& error) { return error.code == base::Code::kCancelled; }

// The server answers "forbidden" before it looks whether there is such a kind at all; what it
// serves it tells everybody.
bool IsNotServed(kube::Client& client, const Query& query, const base::Error& error,
                 const io::StopToken& stop) {
  if (error.reason == "ResourceNotServed") return true;
  if (error.code != base::Code::kDenied) return false;
  return client.Serves(query.kind, stop) == false;
}

base::Status ReadOne(kube::Client& client, const Query& query, Snapshot& snapshot,
                     const io::StopToken& stop) {
  const kube::ObjectKey key{.namespace_name = query.namespace_name, .name = query.name};
  auto object = client.Get(query.kind, key, stop);
  if (object) return snapshot.Put(*std::move(object));
  if (EndsEverything(object.error())) return base::Fail(object.error());
  if (object.error().code == base::Code::kNotFound) {
    snapshot.SetMissing(query.kind, key);
  } else if (IsNotServed(client, query, object.error(), stop)) {
    snapshot.SetCoverage(query.kind, Coverage::kNotServed);
  } else {
    snapshot.SetUnknown(query.kind, key, std::move(object).error());
  }
  return {};
}

base::Status ReadMany(kube::Client& client, const Query& query, Snapshot& snapshot,
                      const io::StopToken& stop) {
  auto objects = ReadPages(client, query, stop);
  if (objects) {
    for (Json& object : *objects) TRY(snapshot.Put(std::move(object)));
    // What another query could not read stays unknown.
    if (snapshot.coverage(query.kind) != Coverage::kUnknown) {
      snapshot.SetCoverage(query.kind, Coverage::kRead);
    }
    return {};
  }
  if (EndsEverything(objects.error())) return base::Fail(objects.error());
  if (IsNotServed(client, query, objects.error(), stop)) {
    snapshot.SetCoverage(query.kind, Coverage::kNotServed);
  } else {
    snapshot.SetUnknown(query.kind, std::move(objects).error());
  }
  return {};
}

}  // namespace

base::Status ReadMore(kube::Client& client, std::span<const Query> queries, Snapshot& snapshot,
                      const io::StopToken& stop) {
  for (const Query& query : queries) {
    TRY(query.name.empty() ? ReadMany(client, query, snapshot, stop)
                           : ReadOne(client, query, snapshot, stop));
  }
  return {};
}

base::Result<Snapshot> ReadLive(kube::Client& client, std::span<const Query> queries,
                                const io::StopToken& stop) {
  Snapshot snapshot(client.config().origin, /*complete=*/false);
  // Asked first: when nobody answers, one error says so instead of one for every kind.
  TRY_ASSIGN(const kube::ServerVersion version, client.Version(stop));
  snapshot.SetServerVersion(version.git_version);
  TRY(ReadMore(client, queries, snapshot, stop));
  return snapshot;
}

}  // namespace pitcrew::snapshot
