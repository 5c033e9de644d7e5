// What the server of the page answers: the page's own files, and below /api/ the fleet as JSON and
// as a stream of events. docs/dashboard.md describes it. Reads only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "dashboard/access.h"
#include "dashboard/feed.h"
#include "io/http_server.h"

namespace pitcrew::dashboard {

struct SiteSettings {
  // Where the fleet is read from: {"kind": "cluster" or "file", "name": ..., "time": of a file}.
  codec::Json source;
  // So many pages are followed at a time; a further one is told to come back later. Each takes a
  // thread of the server.
  int most_streams = 24;
  // A stream that has nothing to tell says so after this time, and finds out then that its reader
  // has gone.
  std::chrono::milliseconds heartbeat{15000};
};

// Thread-safe; must outlive the server that it answers for.
class Site {
 public:
  // One node in full, as DetailOf gives it.
  using Detail = std::function<base::Result<codec::Json>(const std::string& node)>;

  Site(SiteSettings settings, std::unique_ptr<Access> access, Feed& feed, Detail detail);

  io::HttpAnswer Answer(const io::HttpServerRequest& request);
  // Options of a server that answers with this: headers of every answer, threads.
  [[nodiscard]] io::HttpServerOptions ServerOptions() const;
  [[nodiscard]] int streams() const { return *streams_; }

 private:
  io::HttpAnswer AnswerApi(const io::HttpServerRequest& request);
  [[nodiscard]] io::HttpAnswer AnswerFleet() const;
  io::HttpAnswer AnswerEvents(const io::HttpServerRequest& request);
  [[nodiscard]] io::HttpAnswer AnswerNode(const std::string& node) const;

  const SiteSettings settings_;
  const std::unique_ptr<Access> access_;
  Feed& feed_;
  const Detail detail_;
  // Shared with the streams, whose ends the server tells on its own threads.
  const std::shared_ptr<std::atomic<int>> streams_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace pitcrew::dashboard
