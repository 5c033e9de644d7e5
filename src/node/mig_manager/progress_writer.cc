#include "node/mig_manager/progress_writer.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "api/mig_progress.h"
#include "base/log.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::mig_manager {

struct ProgressWriter::Implementation {
  Implementation(std::shared_ptr<kube::Client> api, std::string name)
      : client(std::move(api)), node_name(std::move(name)), thread([this] { Run(); }) {}
  ~Implementation() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    stop.Stop();
    changed.notify_all();
    thread.join();
  }

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || next.has_value(); });
      if (ending) return;
      const auto text = *std::exchange(next, std::nullopt);
      writing = true;
      lock.unlock();
      Send(text);
      lock.lock();
      writing = false;
      changed.notify_all();
    }
  }

  void Send(const std::string& text) {
    kube::WriteOptions as;
    as.field_manager = "mig-manager";
    const auto request =
        kube::PatchRequest(kube::kNodes, {"", node_name}, kube::PatchType::kMerge,
                           own_node::AnnotationPatch(api::kMigConfigProgress, text), as);
    kube::CallLimits limits;
    limits.timeout = std::chrono::seconds(5);
    limits.retry.attempts = 1;
    const auto sent = client->Send(request, limits, stop.token());
    if (!sent && sent.error().code != base::Code::kCancelled) {
      base::LogWarning("The progress of the MIG change is not told", sent.error());
    }
  }

  const std::shared_ptr<kube::Client> client;
  const std::string node_name;
  const io::StopSource stop;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> next;
  bool writing = false;
  bool ending = false;
  std::thread thread;  // last: it uses the others
};

ProgressWriter::ProgressWriter(std::shared_ptr<kube::Client> client, std::string node_name)
    : implementation_(std::make_unique<Implementation>(std::move(client), std::move(node_name))) {}
ProgressWriter::~ProgressWriter() = default;

void ProgressWriter::Write(const api::MigProgress& progress) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->next = api::ToText(progress);
  implementation_->changed.notify_all();
}

void ProgressWriter::Settle() {
  std::unique_lock lock(implementation_->mutex);
  implementation_->next.reset();
  implementation_->changed.wait(lock, [this] { return !implementation_->writing; });
}

}  // namespace pitcrew::node::mig_manager
