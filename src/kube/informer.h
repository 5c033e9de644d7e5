// Lists and watches one kind of resource into a store, and tells handlers about every change.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/resource.h"
#include "kube/retry.h"
#include "kube/store.h"

namespace pitcrew::kube {

struct InformerOptions {
  std::string namespace_name{};  // empty: all namespaces
  std::string label_selector{};
  std::string field_selector{};
  // Smaller than client-go's 500: a page is held whole while it is read, and 1,000 Nodes of 20 KB
  // cost 28 MB of peak memory at 500 and 18 MB at 100, in the same time.
  int page_size = 100;
  // The server ends a watch after a random time between this and twice this.
  std::chrono::seconds watch_timeout{290};
  // client-go's: the watchers of a fleet that lose their server at one moment come back over a
  // second at first, and over half a minute when it stays away.
  BackoffPolicy backoff{.base = std::chrono::milliseconds(800),
                        .cap = std::chrono::milliseconds(30000),
                        .jitter = 1.0};
  // Called on the informer's thread each time a watch was opened: at the start, when the server
  // ended one as it does every few minutes, and after every interruption. Must not block.
  std::function<void()> opened{};
  // Called on the informer's thread each time the store stops being kept up to date, and again
  // while it is not; status() tells why. Must not block.
  std::function<void()> interrupted{};
};

struct InformerStatus {
  bool synced = false;
  bool watching = false;
  // Why the store is not being kept up to date now; none while it is.
  std::optional<base::Error> trouble{};
  std::uint64_t lists = 0;    // begun
  std::uint64_t watches = 0;  // opened
};

// The type-free part of Informer.
class Reflector {
 public:
  Reflector(std::shared_ptr<Client> client, const ResourceKind& kind, InformerOptions options,
            std::shared_ptr<ObjectStore> store);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  void Stop();
  base::Status WaitUntilSynced(const io::StopToken& stop, base::Deadline deadline = {}) const;
  [[nodiscard]] InformerStatus status() const;
  [[nodiscard]] const ResourceKind& kind() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// What a controller needs to know of an informer.
class Source {
 public:
  virtual ~Source() = default;
  // Starts the informer's thread; a second call does nothing. Handlers must be there before.
  virtual void Start() = 0;
  // kTimeout at the deadline, with the trouble in the message; kCancelled on stop.
  virtual base::Status WaitUntilSynced(const io::StopToken& stop,
                                       base::Deadline deadline = {}) const = 0;
  [[nodiscard]] virtual InformerStatus status() const = 0;
};

// Survives restarts of the server, dropped connections and compaction without losing or doubling a
// change; while the server is away the store keeps what it had. Handlers run one after another on
// the informer's own thread and must not block for long. May be shared by several controllers.
template <class View>
class Informer final : public Source {
 public:
  Informer(std::shared_ptr<Client> client, const ResourceKind& kind, Projection<View> projection,
           InformerOptions options = {})
      : objects_(std::make_shared<ObjectStore>(Erase(std::move(projection)), Equal())),
        store_(objects_),
        reflector_(std::move(client), kind, std::move(options), objects_) {}
  ~Informer() override { Stop(); }

  // Before Start only.
  void AddHandler(std::function<void(const Change<View>&)> handler) {
    objects_->AddHandler([handler = std::move(handler)](const ObjectStore::AnyChange& change) {
      handler(Change<View>{.kind = change.kind,
                           .key = change.key,
                           .before = std::static_pointer_cast<const View>(change.before),
                           .now = std::static_pointer_cast<const View>(change.now),
                           .initial = change.initial});
    });
  }
  // Told about every version that cannot be projected. Before Start only.
  void AddProblemHandler(std::function<void(const ObjectKey&, const base::Error&)> handler) {
    objects_->AddProblemHandler(std::move(handler));
  }

  void Start() override { reflector_.Start(); }
  // Ends the watch and waits for the thread. The store stays readable.
  void Stop() { reflector_.Stop(); }
  base::Status WaitUntilSynced(const io::StopToken& stop,
                               base::Deadline deadline = {}) const override {
    return reflector_.WaitUntilSynced(stop, deadline);
  }
  [[nodiscard]] InformerStatus status() const override { return reflector_.status(); }
  [[nodiscard]] const Store<View>& store() const { return store_; }

 private:
  static ObjectStore::AnyProjection Erase(Projection<View> projection) {
    return [projection =
                std::move(projection)](std::string_view raw) -> base::Result<ObjectStore::AnyView> {
      TRY_ASSIGN(auto view, projection(raw));
      return std::make_shared<const View>(std::move(view));
    };
  }

  static ObjectStore::AnyEqual Equal() {
    if constexpr (std::equality_comparable<View>) {
      return [](const void* a, const void* b) {
        return *static_cast<const View*>(a) == *static_cast<const View*>(b);
      };
    } else {
      return nullptr;
    }
  }

  std::shared_ptr<ObjectStore> objects_;
  Store<View> store_;
  Reflector reflector_;
};

}  // namespace pitcrew::kube
