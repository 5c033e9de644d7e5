#include "node/own_node/annotation_writer.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::own_node {

struct AnnotationWriter::Implementation {
  Implementation(std::shared_ptr<kube::Client> api, std::string name, std::string manager,
                 std::string key)
      : client(std::move(api)),
        node_name(std::move(name)),
        component(std::move(manager)),
        annotation(std::move(key)),
        thread([this] { Run(); }) {}
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
    as.field_manager = component;
    const auto request = kube::PatchRequest(kube::kNodes, {"", node_name}, kube::PatchType::kMerge,
                                            AnnotationPatch(annotation, text), as);
    kube::CallLimits limits;
    limits.timeout = std::chrono::seconds(5);
    limits.retry.attempts = 1;
    const auto sent = client->Send(request, limits, stop.token());
    if (!sent && sent.error().code != base::Code::kCancelled) {
      base::LogWarning("The node does not tell how far a change is", sent.error());
    }
  }

  const std::shared_ptr<kube::Client> client;
  const std::string node_name;
  const std::string component;
  const std::string annotation;
  const io::StopSource stop;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> next;
  bool writing = false;
  bool ending = false;
  std::thread thread;  // last: it uses the others
};

AnnotationWriter::AnnotationWriter(std::shared_ptr<kube::Client> client, std::string node_name,
                                   std::string component, std::string annotation)
    : implementation_(std::make_unique<Implementation>(
          std::move(client), std::move(node_name), std::move(component), std::move(annotation))) {}
AnnotationWriter::~AnnotationWriter() = default;

void AnnotationWriter::Write(std::string text) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->next = std::move(text);
  implementation_->changed.notify_all();
}

void AnnotationWriter::Settle() {
  std::unique_lock lock(implementation_->mutex);
  implementation_->next.reset();
  implementation_->changed.wait(lock, [this] { return !implementation_->writing; });
}

}  // namespace pitcrew::node::own_node
