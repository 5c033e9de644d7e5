#include "io/http2_client.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <list>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/bell.h"
#include "io/http2_session.h"
#include "io/tls_connection.h"

namespace pitcrew::io {
namespace {

// Connections on which one exchange may be begun when servers turn it away unread.
constexpr int kMostAttempts = 4;

// A connection in the making, on a thread of its own because resolving a name blocks.
class Dial {
 public:
  Dial(TlsTarget target, const StopToken& stop, const base::Bell& bell)
      : thread_([this, target = std::move(target), stop, &bell] {
          auto connected = TlsConnection::Connect(target, Clock::now() + kConnectTimeout, stop);
          const std::scoped_lock lock(mutex_);
          result_ = std::move(connected);
          bell.Ring();
        }) {}

  std::optional<base::Result<TlsConnection>> Take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(result_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<base::Result<TlsConnection>> result_;
  std::jthread thread_;  // last: uses everything above
};

struct Origin {
  TlsTarget target;
  bool http1 = false;  // the server does not speak HTTP/2
  std::unique_ptr<Dial> dial{};
  std::vector<ExchangePointer> waiting{};                 // for a connection
  std::vector<std::unique_ptr<Http2Session>> sessions{};  // at most one accepts exchanges

  [[nodiscard]] bool unused() const {
    return !http1 && dial == nullptr && waiting.empty() && sessions.empty();
  }
};

}  // namespace

class Http2Client::Loop {
 public:
  Loop(HttpClientOptions options, Fallback fallback, base::Bell bell)
      : options_(options),
        fallback_(std::move(fallback)),
        bell_(std::move(bell)),
        thread_([this] { Run(); }) {}

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
    TlsTarget target{.host = exchange.url.host,
                     .port = exchange.url.port,
                     .server_name = exchange.request.tls_server_name,
                     .tls = exchange.request.tls};
    for (auto& origin : origins_) {
      if (origin.target.SameAs(target)) return origin;
    }
    return origins_.emplace_back(Origin{.target = std::move(target)});
  }

  // By value: the table's own pointer goes away in here.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void Complete(ExchangePointer exchange, std::optional<base::Error> error) {
    active_.erase(exchange.get());
    exchange->Complete(std::move(error));
  }

  // Takes it from where it waits; the session that it was on, if it was on one.
  static Http2Session* Detach(const Active& active) {
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
      Http2Session* session = Detach(active);
      if (error.code == base::Code::kTimeout && session != nullptr) session->SuspectDead(now);
      Complete(active.exchange, std::move(error));
    }
  }

  void TakeDialled(Origin& origin) {
    if (origin.dial == nullptr) return;
    auto dialled = origin.dial->Take();
    if (!dialled) return;
    origin.dial.reset();
    if (*dialled && !(*dialled)->http2()) {
      origin.http1 = true;
      return;
    }
    if (*dialled) {
      auto session = Http2Session::Create(
          *std::move(*dialled), options_,
          [this, &origin](const ExchangePointer& exchange, Http2Session::Outcome outcome,
                          std::optional<base::Error> error) {
            OnEnd(origin, exchange, outcome, std::move(error));
          });
      if (session) {
        origin.sessions.push_back(*std::move(session));
        return;
      }
      *dialled = base::Fail(session.error());
    }
    const base::Error& error = dialled->error();
    for (const auto& exchange : std::exchange(origin.waiting, {})) {
      Complete(exchange, exchange->Failure(error.code, error.reason, error.message));
    }
  }

  void OnEnd(Origin& origin, const ExchangePointer& exchange, Http2Session::Outcome outcome,
             std::optional<base::Error> error) {
    if (outcome == Http2Session::Outcome::kDone) {
      Complete(exchange, std::move(error));
    } else if (outcome == Http2Session::Outcome::kNeedsHttp1) {
      origin.http1 = true;
      origin.waiting.push_back(exchange);
      again_ = true;
    } else if (exchange->attempts < kMostAttempts) {
      origin.waiting.push_back(exchange);
      again_ = true;
    } else {
      Complete(exchange, exchange->Failure(base::Code::kUnavailable, "ConnectionRefused",
                                           "the server turned the request away unread, again and "
                                           "again"));
    }
  }

  // Sends what waits on its way.
  void Dispatch(Origin& origin) {
    if (origin.waiting.empty()) return;
    if (origin.http1) {
      for (auto& exchange : std::exchange(origin.waiting, {})) {
        active_.erase(exchange.get());
        fallback_(std::move(exchange));
      }
      return;
    }
    const auto accepting = std::find_if(origin.sessions.begin(), origin.sessions.end(),
                                        [](const auto& session) { return session->accepts(); });
    if (accepting != origin.sessions.end()) {
      for (const auto& exchange : std::exchange(origin.waiting, {})) {
        ++exchange->attempts;
        (*accepting)->Begin(exchange);
      }
    } else if (origin.dial == nullptr) {
      origin.dial = std::make_unique<Dial>(origin.target, quitting_.token(), bell_);
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
        entries.push_back({.fd = session->fd(), .events = session->events(), .revents = 0});
        until = std::min<base::Deadline>(until, session->deadline());
      }
    }
    if (again_) until = Clock::time_point::min();
    ::poll(entries.data(), entries.size(), until.poll_milliseconds());
    bell_.Silence();
  }

  const HttpClientOptions options_;
  const Fallback fallback_;
  const base::Bell bell_;
  StopSource quitting_;
  Inbox inbox_;
  // Of the I/O thread.
  std::unordered_map<Exchange*, Active> active_;
  std::list<Origin> origins_;  // sessions refer to theirs
  bool again_ = false;         // something waits for another round
  std::thread thread_;         // last: uses everything above
};

base::Result<std::unique_ptr<Http2Client>> Http2Client::Create(HttpClientOptions options,
                                                               Fallback fallback) {
  TRY_ASSIGN(auto bell, base::Bell::Create());
  return std::unique_ptr<Http2Client>(
      new Http2Client(std::make_unique<Loop>(options, std::move(fallback), std::move(bell))));
}

Http2Client::Http2Client(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Http2Client::~Http2Client() = default;

void Http2Client::Submit(ExchangePointer exchange) { loop_->Submit(std::move(exchange)); }
void Http2Client::Wake() { loop_->Wake(); }

}  // namespace pitcrew::io
