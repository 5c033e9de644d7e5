#include "dashboard/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "dashboard/assets.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kNodes = "/api/nodes/";

// A page may only run and show what this server gave it, be framed by nobody, and make markup of no
// text: names and messages of a cluster are other people's.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

// The time at which a stream says that nothing has changed.
std::string Beat() {
  return fmt::format("event: beat\ndata: {{\"time\":\"{}\"}}\n\n",
                     base::FormatRfc3339(base::WallClock::now()));
}

std::string EventText(const FeedMessage& message) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", message.id,
                     message.whole ? "fleet" : "change", *message.json);
}

// One reader's place in the feed.
class Stream {
 public:
  Stream(std::shared_ptr<std::atomic<int>> streams, std::string seen, std::string first)
      : streams_(std::move(streams)), seen_(std::move(seen)), first_(std::move(first)) {}
  ~Stream() { --*streams_; }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::optional<std::string> Next(Feed& feed, std::chrono::milliseconds heartbeat) {
    if (!first_.empty()) return std::exchange(first_, "");
    const auto message = feed.Next(seen_, base::SteadyClock::now() + heartbeat);
    if (feed.closed()) return std::nullopt;
    if (!message) return Beat();
    seen_ = message->id;
    return EventText(*message);
  }

 private:
  std::shared_ptr<std::atomic<int>> streams_;
  std::string seen_;
  std::string first_;
};

const Asset* AssetAt(std::string_view path) {
  if (path == "/") path = "/index.html";
  const auto assets = Assets();
  const auto found = std::ranges::find(assets, path, &Asset::path);
  return found == assets.end() ? nullptr : &*found;
}

}  // namespace

Site::Site(SiteSettings settings, std::unique_ptr<Access> access, Feed& feed, Detail detail)
    : settings_(std::move(settings)),
      access_(std::move(access)),
      feed_(feed),
      detail_(std::move(detail)) {}

io::HttpServerOptions Site::ServerOptions() const {
  constexpr std::size_t kThreadsForOthers = 8;
  io::HttpServerOptions options;
  options.threads = static_cast<std::size_t>(settings_.most_streams) + kThreadsForOthers;
  options.headers = {{"Content-Security-Policy", std::string(kContentSecurityPolicy)},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cross-Origin-Opener-Policy", "same-origin"},
                     {"Cross-Origin-Resource-Policy", "same-origin"},
                     {"Cache-Control", "no-store"}};
  return options;
}

io::HttpAnswer Site::Answer(const io::HttpServerRequest& request) {
  if (auto refused = access_->RefuseAnybody(request)) return *std::move(refused);
  if (request.path.starts_with("/api/")) return AnswerApi(request);
  if (request.path == "/healthz") return {.body = "ok\n"};
  const Asset* asset = AssetAt(request.path);
  if (asset == nullptr) return {.status = 404, .body = "there is no such page\n"};
  return {.content_type = std::string(asset->content_type), .body = std::string(asset->text)};
}

io::HttpAnswer Site::AnswerApi(const io::HttpServerRequest& request) {
  // Pages of other origins, those of other ports of this host among them, get nothing.
  const auto site = request.header("sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return Refusal(403, "this is not for pages of other servers");
  }
  if (request.path == "/api/session") {
    io::HttpAnswer answer = access_->Enter(request);
    if (answer.status == 401) {
      answer.body = codec::ToJsonText({{"error", "not signed in"}, {"asks", access_->asks_for()}});
    }
    return answer;
  }
  if (auto refused = access_->Refuse(request)) return *std::move(refused);
  if (request.path == "/api/fleet") return AnswerFleet();
  if (request.path == "/api/events") return AnswerEvents(request);
  if (request.path.starts_with(kNodes)) return AnswerNode(request.path.substr(kNodes.size()));
  return Refusal(404, "there is no such thing");
}

io::HttpAnswer Site::AnswerFleet() const {
  const auto whole = feed_.Whole();
  if (whole == nullptr) return Refusal(503, "the cluster has not been read yet");
  return {.content_type = std::string(kJson),
          .body = fmt::format(R"({{"source":{},{}{})", codec::ToJsonText(settings_.source),
                              whole->substr(1), "\n")};
}

io::HttpAnswer Site::AnswerEvents(const io::HttpServerRequest& request) {
  if (++*streams_ > settings_.most_streams) {
    --*streams_;
    io::HttpAnswer busy = Refusal(503, "too many pages are open");
    busy.headers.emplace_back("Retry-After", "5");
    return busy;
  }
  // A browser that comes back says what it has seen last.
  auto stream = std::make_shared<Stream>(
      streams_, std::string(request.header("last-event-id")),
      fmt::format("retry: 2000\nevent: source\ndata: {}\n\n", codec::ToJsonText(settings_.source)));
  return {.content_type = "text/event-stream",
          .body = "",
          .next_part = [this, stream, request]() -> std::optional<std::string> {
            // Who was allowed to see the fleet may not be any more.
            if (access_->Refuse(request)) return std::nullopt;
            return stream->Next(feed_, settings_.heartbeat);
          }};
}

io::HttpAnswer Site::AnswerNode(const std::string& node) const {
  auto detail = detail_(node);
  if (detail) {
    return {.content_type = std::string(kJson), .body = codec::ToJsonText(*detail) + "\n"};
  }
  const bool absent = detail.error().code == base::Code::kNotFound;
  return Refusal(absent ? 404 : 503, detail.error().message);
}

}  // namespace pitcrew::dashboard
