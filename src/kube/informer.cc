#include "kube/informer.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

#include "base/bell.h"
#include "base/log.h"
#include "base/overload.h"
#include "kube/projection.h"
#include "kube/watcher.h"

namespace pitcrew::kube {
namespace {

// How much later than the server a watch is given up.
constexpr std::chrono::seconds kWatchMargin{10};

}  // namespace

struct Reflector::Implementation {
  Implementation(std::shared_ptr<Client> client_in, const ResourceKind& kind_in,
                 InformerOptions options_in, std::shared_ptr<ObjectStore> store_in)
      : client(std::move(client_in)),
        kind(kind_in),
        options(std::move(options_in)),
        store(std::move(store_in)) {}

  // What a request or the stream has brought: the input of the state machine, with the texts that
  // it is about.
  struct Observation {
    WatchInput input;
    std::string text;  // keeps what the views below point into
    RawPage page;
    ObjectMeta meta;
    std::string_view object;
  };

  void Run();
  Observation Observe(const WatchState& state);
  Observation ListPage(std::string_view continue_token);
  Observation OpenWatch(const std::string& resource_version);
  Observation NextEvent();
  void Perform(const WatchStep& step, const Observation& observation);
  void Report(const WatchStep& step, const WatchInput& input);
  WatchStep StartOver(const char* what);

  const std::shared_ptr<Client> client;
  const ResourceKind kind;
  const InformerOptions options;
  const std::shared_ptr<ObjectStore> store;
  const base::Result<base::Bell> synced = base::Bell::Create();  // rung once, never silenced

  // Of the thread.
  std::unique_ptr<io::HttpStream> stream;
  io::LineSplitter lines;
  std::mt19937 random{std::random_device{}()};

  mutable std::mutex mutex;
  InformerStatus status;
  bool started = false;

  io::StopSource stop;
  std::thread thread;
};

Reflector::Implementation::Observation Reflector::Implementation::ListPage(
    std::string_view continue_token) {
  const ListOptions list{.label_selector = options.label_selector,
                         .field_selector = options.field_selector,
                         .page_size = options.page_size};
  const Request request = ListRequest(kind, options.namespace_name, list, continue_token);
  if (continue_token.empty()) {
    const std::scoped_lock lock(mutex);
    ++status.lists;
  }
  Observation observation;
  auto body = client->Send(request, stop.token());
  if (!body) {
    observation.input = ListFailed{std::move(body).error()};
    return observation;
  }
  observation.text = *std::move(body);
  observation.text.reserve(observation.text.size() + kReadablePadding);
  auto page = ReadPage(observation.text);
  if (!page) {
    observation.input = ListFailed{std::move(page).error()};
    return observation;
  }
  observation.page = *std::move(page);
  observation.input = PageArrived{.resource_version = observation.page.resource_version,
                                  .continue_token = observation.page.continue_token};
  return observation;
}

Reflector::Implementation::Observation Reflector::Implementation::OpenWatch(
    const std::string& resource_version) {
  // Watches of many informers must not all end at the same time.
  const double spread = std::uniform_real_distribution<double>(1.0, 2.0)(random);
  const auto timeout = std::chrono::seconds(
      static_cast<std::int64_t>(static_cast<double>(options.watch_timeout.count()) * spread));
  const WatchOptions watch{.label_selector = options.label_selector,
                           .field_selector = options.field_selector,
                           .resource_version = resource_version,
                           .timeout_seconds = static_cast<int>(timeout.count())};
  lines = io::LineSplitter();
  Observation observation;
  auto opened = client->OpenStream(WatchRequest(kind, options.namespace_name, watch),
                                   timeout + kWatchMargin, stop.token());
  if (opened) {
    stream = *std::move(opened);
    observation.input = WatchOpened{};
  } else {
    observation.input = WatchRefused{std::move(opened).error()};
  }
  return observation;
}

Reflector::Implementation::Observation Reflector::Implementation::NextEvent() {
  Observation observation;
  for (;;) {
    if (auto line = lines.Next()) {
      observation.text = *std::move(line);
      break;
    }
    auto bytes = stream->Next();
    if (!bytes) {
      observation.input = WatchEnded{std::move(bytes).error()};
      return observation;
    }
    if (!*bytes) {
      observation.input = WatchEnded{};
      return observation;
    }
    if (!lines.Append(**bytes)) {
      observation.input = WatchEnded{base::Unavailable("ConnectionLost", "an endless watch event")};
      return observation;
    }
  }
  observation.text.reserve(observation.text.size() + kReadablePadding);
  auto event = DecodeEvent(observation.text);
  if (!event) {
    // Its version has not been taken over, so the resumed watch brings it again.
    observation.input = WatchEnded{std::move(event).error()};
    return observation;
  }
  observation.meta = std::move(event->meta);
  observation.object = event->object;
  observation.input = std::move(event->event);
  return observation;
}

Reflector::Implementation::Observation Reflector::Implementation::Observe(const WatchState& state) {
  return std::visit(
      base::Overload{[&](const Empty&) { return ListPage(""); },
                     [&](const Listing& listing) { return ListPage(listing.continue_token); },
                     [&](const Listed& listed) { return OpenWatch(listed.resource_version); },
                     [&](const Watching&) { return NextEvent(); }},
      state);
}

void Reflector::Implementation::Perform(const WatchStep& step, const Observation& observation) {
  if (step.begin_list) store->BeginList();
  switch (step.action) {
    case StoreAction::kNone:
      return;
    case StoreAction::kAddPage:
    case StoreAction::kAddPageAndCommit:
      for (const auto& [meta, raw] : observation.page.objects) store->AddListed(meta, raw);
      if (step.action == StoreAction::kAddPageAndCommit) store->CommitList();
      return;
    case StoreAction::kUpsert:
      store->Upsert(observation.meta, observation.object);
      return;
    case StoreAction::kRemove:
      store->Remove(observation.meta);
      return;
  }
}

void Reflector::Implementation::Report(const WatchStep& step, const WatchInput& input) {
  std::optional<base::Error> trouble;
  if (const auto* failed = std::get_if<ListFailed>(&input)) trouble = failed->error;
  if (const auto* refused = std::get_if<WatchRefused>(&input)) trouble = refused->error;
  if (const auto* ended = std::get_if<WatchEnded>(&input)) trouble = ended->error;
  if (const auto* event = std::get_if<WatchEventArrived>(&input);
      event != nullptr && event->type == WatchEventArrived::Type::kError) {
    trouble = event->error;
  }
  if (stop.token().stopped()) return;
  const bool committed = step.action == StoreAction::kAddPageAndCommit;
  const bool opened = std::holds_alternative<WatchOpened>(input);
  if (opened && options.opened) options.opened();
  if (trouble) {
    base::LogDebug("watch interrupted",
                   {{"resource", kind.plural}, {"error", trouble->ToString()}});
  }
  const bool troubled = trouble.has_value();
  {
    const std::scoped_lock lock(mutex);
    status.watching = std::holds_alternative<Watching>(step.next);
    if (opened) {
      ++status.watches;
      status.trouble.reset();
    }
    if (trouble) status.trouble = std::move(trouble);
    if (committed && !std::exchange(status.synced, true) && synced) synced->Ring();
  }
  if (troubled && options.interrupted) options.interrupted();
}

// After an exception (of a callback, or no memory is left) it is not known how far the step has
// come.
WatchStep Reflector::Implementation::StartOver(const char* what) {
  base::Error trouble = base::Internal("UncaughtException", what);
  base::LogError("a watch has thrown an exception; everything is listed again", trouble,
                 {{"resource", kind.plural}});
  const std::scoped_lock lock(mutex);
  status.watching = false;
  status.trouble = std::move(trouble);
  return {.next = Empty{}, .back_off = true};
}

void Reflector::Implementation::Run() {
  WatchState state = Empty{};
  int failures = 0;
  while (!stop.token().stopped()) {
    WatchStep step;
    try {
      const Observation observation = Observe(state);
      step = Advance(state, observation.input);
      Perform(step, observation);
      Report(step, observation.input);
    } catch (const std::exception& problem) {
      step = StartOver(problem.what());
    } catch (...) {
      step = StartOver("an exception of unknown type");
    }
    state = std::move(step.next);
    if (!std::holds_alternative<Watching>(state)) stream.reset();
    if (step.reset_back_off) failures = 0;
    if (!step.back_off) continue;
    const double share = std::uniform_real_distribution<double>(0.0, 1.0)(random);
    if (stop.token().WaitFor(options.backoff.Delay(++failures, share))) break;
  }
  stream.reset();
  const std::scoped_lock lock(mutex);
  status.watching = false;
}

Reflector::Reflector(std::shared_ptr<Client> client, const ResourceKind& kind,
                     InformerOptions options, std::shared_ptr<ObjectStore> store)
    : implementation_(std::make_unique<Implementation>(std::move(client), kind, std::move(options),
                                                       std::move(store))) {}

Reflector::~Reflector() { Stop(); }

void Reflector::Start() {
  Implementation& self = *implementation_;
  const std::scoped_lock lock(self.mutex);
  if (std::exchange(self.started, true)) return;
  self.thread = std::thread([&self] { self.Run(); });
}

void Reflector::Stop() {
  Implementation& self = *implementation_;
  self.stop.Stop();
  if (self.thread.joinable()) self.thread.join();
}

base::Status Reflector::WaitUntilSynced(const io::StopToken& stop, base::Deadline deadline) const {
  const Implementation& self = *implementation_;
  if (!self.synced) return base::Fail(self.synced.error());
  const auto ready = io::WaitReadable({self.synced->fd()}, stop, deadline);
  if (ready) return {};
  if (ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
  const auto now = status();
  return base::Fail(base::Error{
      .code = base::Code::kTimeout,
      .reason = "NotSynced",
      .message = fmt::format("{} have not been listed in time{}{}", self.kind.plural,
                             now.trouble ? ": " : "", now.trouble ? now.trouble->message : "")});
}

InformerStatus Reflector::status() const {
  const std::scoped_lock lock(implementation_->mutex);
  return implementation_->status;
}

const ResourceKind& Reflector::kind() const { return implementation_->kind; }

}  // namespace pitcrew::kube
