#include "node/own_node/superseded.h"

#include <utility>

namespace pitcrew::node::own_node {
namespace {

// Unknown is not another value.
bool AsksForOther(const base::Observed<std::string>& value, const LabelRequest& request) {
  if (value.is_unknown()) return false;
  const std::string text = value.is_present() ? *value.value() : "";
  return (text.empty() ? request.fallback : text) != request.value;
}

}  // namespace

SupersededStop::SupersededStop(LabelWatch& watch, LabelRequest request, const io::StopToken& stop)
    : stop_(io::StopSource::LinkedTo(stop)), thread_([this, &watch, request = std::move(request)] {
        while (true) {
          watch.Take();
          if (AsksForOther(watch.Value(request.label), request)) {
            superseded_ = true;
            stop_.Stop();
            return;
          }
          if (!io::WaitReadable({watch.fd()}, ending_.token())) return;
        }
      }) {}

SupersededStop::~SupersededStop() {
  ending_.Stop();
  thread_.join();
}

}  // namespace pitcrew::node::own_node
