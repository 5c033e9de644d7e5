#include "io/http_engine.h"

#include <poll.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/bell.h"
#include "io/connection.h"
#include "io/http1_session.h"
#include "io/http2_session.h"

namespace pitcrew::io {
namespace {

// Connections on which one exchange may be begun when servers turn it away unread.
constexpr int kMostAttempts = 4;
// Connections in the making to one server at once.
constexpr std::size_t kMostDials = 16;

// A connection in the making, on a thread of its own because resolving a name blocks.
class Dial {
 public:
  Dial(Route route, bool offer_http2, const StopToken& stop, const base::Bell& bell)
      : thread_([this, route = std::move(route), offer_http2, stop, &bell] {
          auto connected =
              Connection::Connect(route, offer_http2, base::Deadline::After(kConnectTimeout), stop);
          const std::scoped_lock lock(mutex_);
          result_ = std::move(connected);
          bell.Ring();
        }) {}

  std::optional<base::Result<Connection>> Take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(result_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<base::Result<Connection>> result_;
  std::jthread thread_;  // last: uses everything above
};

// A server, and the connections to it.
struct Origin {
  Route route;
  // Each exchange has a connection for itself: the server does not speak HTTP/2.
  bool one_each = false;
  bool only_http1 = false;  // it does, and does not want to
  std::list<std::unique_ptr<Dial>> dials{};
  std::vector<ExchangePointer> waiting{};  // for a connection
  std::vector<std::unique_ptr<HttpSession>> sessions{};

  [[nodiscard]] bool unused() const { return dials.empty() && waiting.empty() && sessions.empty(); }
};

}  // namespace

class HttpEngine::Loop {
 public:
  Loop(HttpClientOptions options, base::Bell bell)
      : options_(options), bell_(std::move(bell)), thread_([this] { Run(); }) {}

  ~Loop() {
    inbox_.Close();
    quitting_.Stop();
    bell_.Ring();
    thread_.join();
  }

  void Submit(ExchangePointer exchange) {
    inbox_.Add(std::move(exchange));
    bell_.Ring();
  }

  void Wake() const { bell_.Ring(); }

 private:
  struct Active {
    ExchangePointer exchange;
    Origin* origin = nullptr;
  };

  void Run() {
    BlockSignals();
    while (auto submitted = inbox_.TakeAll()) {
      for (auto& exchange : *submitted) Take(std::move(exchange));
      ExpireExchanges();
      again_ = false;
      for (auto& origin : origins_) {
        TakeDialled(origin);
        Dispatch(origin);
        WorkOn(origin);
      }
      origins_.remove_if([](const Origin& origin) { return origin.unused(); });
      Wait();
    }
    while (!active_.empty()) {
      const Active ended = active_.begin()->second;
      Detach(ended);
      Complete(ended.exchange, quitting_.token().error());
    }
  }

  void Take(ExchangePointer exchange) {
    Origin& origin = OriginOf(*exchange);
    active_.emplace(exchange.get(), Active{.exchange = exchange, .origin = &origin});
    origin.waiting.push_back(std::move(exchange));
  }

  Origin& OriginOf(const Exchange& exchange) {
    Route route{.tls = exchange.url.scheme == "https",
                .host = exchange.url.host,
                .port = exchange.url.port,
                .server_name = exchange.request.tls_server_name,
                .settings = exchange.request.tls,
                .proxy = exchange.proxy};
    for (auto& origin : origins_) {
      if (origin.route.SameAs(route)) return origin;
    }
    const bool one_each = !route.tls;
    return origins_.emplace_back(Origin{.route = std::move(route), .one_each = one_each});
  }

  // By value: the table's own pointer goes away in here.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void Complete(ExchangePointer exchange, std::optional<base::Error> error) {
    active_.erase(exchange.get());
    exchange->Complete(std::move(error));
  }

  // Takes it from where it waits; the session that it was on, if it was on one.
  static HttpSession* Detach(const Active& active) {
    std::erase(active.origin->waiting, active.exchange);
    for (auto& session : active.origin->sessions) {
      if (session->Cancel(active.exchange)) return session.get();
    }
    return nullptr;
  }

  void ExpireExchanges() {
    const auto now = Clock::now();
    std::vector<std::pair<Active, base::Error>> ended;
    for (const auto& [key, active] : active_) {
      if (active.exchange->SuspectsConnection(now)) {
        active.exchange->suspected = true;
        for (const auto& session : active.origin->sessions) {
          if (session->Has(active.exchange)) session->SuspectDead(now);
        }
      }
      if (auto why = active.exchange->WhyEnd(now)) ended.emplace_back(active, *std::move(why));
    }
    for (auto& [active, error] : ended) {
      HttpSession* session = Detach(active);
      if (error.code == base::Code::kTimeout && session != nullptr) session->SuspectDead(now);
      Complete(active.exchange, std::move(error));
    }
  }

  void TakeDialled(Origin& origin) {
    for (auto dial = origin.dials.begin(); dial != origin.dials.end();) {
      auto dialled = (*dial)->Take();
      if (!dialled) {
        ++dial;
        continue;
      }
      dial = origin.dials.erase(dial);
      auto session =
          *dialled
              ? MakeSession(origin, *std::move(*dialled))
              : base::Result<std::unique_ptr<HttpSession>>(base::Fail(std::move(*dialled).error()));
      if (session) {
        origin.sessions.push_back(*std::move(session));
      } else {
        FailWaiting(origin, session.error());
      }
    }
  }

  base::Result<std::unique_ptr<HttpSession>> MakeSession(Origin& origin, Connection connection) {
    auto on_end = [this, &origin](const ExchangePointer& exchange, HttpSession::Outcome outcome,
                                  std::optional<base::Error> error) {
      OnEnd(origin, exchange, outcome, std::move(error));
    };
    origin.one_each = !connection.http2();
    if (connection.http2()) {
      return Http2Session::Create(std::move(connection), options_, std::move(on_end));
    }
    auto asked = origin.route.asks_proxy() ? origin.route.proxy : std::nullopt;
    return std::make_unique<Http1Session>(std::move(connection), std::move(asked), options_,
                                          std::move(on_end));
  }

  // A connection could not be made: for one exchange, or for all that were to share it.
  void FailWaiting(Origin& origin, const base::Error& error) {
    const auto count =
        origin.one_each ? std::min<std::size_t>(1, origin.waiting.size()) : origin.waiting.size();
    const std::vector<ExchangePointer> failed(origin.waiting.begin(),
                                              origin.waiting.begin() + static_cast<long>(count));
    origin.waiting.erase(origin.waiting.begin(), origin.waiting.begin() + static_cast<long>(count));
    for (const auto& exchange : failed) {
      Complete(exchange, exchange->Failure(error.code, error.reason, error.message));
    }
  }

  void OnEnd(Origin& origin, const ExchangePointer& exchange, HttpSession::Outcome outcome,
             std::optional<base::Error> error) {
    if (outcome == HttpSession::Outcome::kDone) {
      Complete(exchange, std::move(error));
    } else if (outcome == HttpSession::Outcome::kNeedsHttp1) {
      origin.one_each = origin.only_http1 = true;
      origin.waiting.push_back(exchange);
    } else if (exchange->attempts < kMostAttempts) {
      origin.waiting.push_back(exchange);
    } else {
      Complete(exchange, exchange->Failure(base::Code::kUnavailable, "ConnectionRefused",
                                           "the server turned the request away unread, again and "
                                           "again"));
    }
    // The connection may be free for it now.
    if (!origin.waiting.empty()) again_ = true;
  }

  // Sends what waits on its way.
  void Dispatch(Origin& origin) {
    for (auto& exchange : std::exchange(origin.waiting, {})) {
      const auto accepting = std::ranges::find_if(origin.sessions, [&](const auto& session) {
        return session->accepts() && !(origin.only_http1 && session->http2());
      });
      if (accepting == origin.sessions.end()) {
        origin.waiting.push_back(std::move(exchange));
        continue;
      }
      ++exchange->attempts;
      exchange->idle_since = Clock::now();  // making a connection has a limit of its own
      (*accepting)->Begin(exchange);
    }
    const std::size_t wanted = origin.one_each ? std::min(origin.waiting.size(), kMostDials)
                                               : std::min<std::size_t>(origin.waiting.size(), 1);
    while (origin.dials.size() < wanted) {
      origin.dials.push_back(
          std::make_unique<Dial>(origin.route, !origin.only_http1, quitting_.token(), bell_));
    }
  }

  static void WorkOn(Origin& origin) {
    const auto now = Clock::now();
    std::erase_if(origin.sessions, [&](const auto& session) {
      const auto goes_on = session->Work(now);
      if (goes_on && *goes_on) return false;
      session->Close(goes_on ? base::Unavailable("ConnectionLost", "the connection was closed")
                             : goes_on.error());
      return true;
    });
  }

  void Wait() {
    std::vector<pollfd> entries{{.fd = bell_.fd(), .events = POLLIN, .revents = 0}};
    base::Deadline until;
    for (const auto& [key, active] : active_) {
      until = std::min(until, active.exchange->deadline());
      const int fd = active.exchange->stop.fd();
      if (fd >= 0 && std::none_of(entries.begin(), entries.end(),
                                  [&](const pollfd& known) { return known.fd == fd; })) {
        entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      }
    }
    for (const auto& origin : origins_) {
      for (const auto& session : origin.sessions) {
        // poll tells the end of a connection also to those who ask for nothing.
        const short events = session->events();
        entries.push_back({.fd = events == 0 ? -1 : session->fd(), .events = events, .revents = 0});
        until = std::min(until, session->deadline());
      }
    }
    if (again_) until = Clock::time_point::min();
    ::poll(entries.data(), entries.size(), until.poll_milliseconds());
    bell_.Silence();
  }

  const HttpClientOptions options_;
  const base::Bell bell_;
  StopSource quitting_;
  Inbox inbox_;
  // Of the I/O thread.
  std::unordered_map<Exchange*, Active> active_;
  std::list<Origin> origins_;  // sessions refer to theirs
  bool again_ = false;         // something waits for another round
  std::thread thread_;         // last: uses everything above
};

base::Result<std::unique_ptr<HttpEngine>> HttpEngine::Create(HttpClientOptions options) {
  TRY_ASSIGN(auto bell, base::Bell::Create());
  return std::unique_ptr<HttpEngine>(
      new HttpEngine(std::make_unique<Loop>(options, std::move(bell))));
}

HttpEngine::HttpEngine(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
HttpEngine::~HttpEngine() = default;

void HttpEngine::Submit(ExchangePointer exchange) { loop_->Submit(std::move(exchange)); }
void HttpEngine::Wake() { loop_->Wake(); }

}  // namespace pitcrew::io
