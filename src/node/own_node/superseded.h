// Waiting that ends early when people ask for another configuration meanwhile: a change that waits
// for pods must not go on for a label that is gone (mig-manager.md section 15, weakness 17).
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "io/stop.h"
#include "node/own_node/label_watch.h"

namespace pitcrew::node::own_node {

// What a label asks for.
struct LabelRequest {
  std::string label;
  std::string value;
  // What a missing or empty label means; empty: nothing, which is another request than any value.
  std::string fallback = {};
};

// Follows one label on a thread of its own; nobody else may wait for the watch meanwhile.
class SupersededStop {
 public:
  // The watch must outlive this object.
  SupersededStop(LabelWatch& watch, LabelRequest request, const io::StopToken& stop);
  ~SupersededStop();
  SupersededStop(const SupersededStop&) = delete;
  SupersededStop& operator=(const SupersededStop&) = delete;

  // Stopped by the given stop, and when the label asks for something else.
  [[nodiscard]] io::StopToken token() const { return stop_.token(); }
  [[nodiscard]] bool superseded() const { return superseded_; }

 private:
  const io::StopSource stop_;
  const io::StopSource ending_;
  std::atomic<bool> superseded_ = false;
  std::thread thread_;
};

}  // namespace pitcrew::node::own_node
