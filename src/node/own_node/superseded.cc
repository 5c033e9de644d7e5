#include "node/own_node/superseded.h"

#include <utility>

namespace pitcrew::node::own_node {
namespace {

// Unknown is not another value.
bool AsksForOther(const base::Observed<std::string>& value, const Wish& wish) {
  if (value.is_unknown()) return false;
  const std::string text = value.is_present() ? *value.value() : "";
  return (text.empty() ? wish.fallback : text) != wish.value;
}

}  // namespace

SupersededStop::SupersededStop(LabelWatch& watch, Wish wish, const io::StopToken& stop)
    : stop_(io::StopSource::LinkedTo(stop)), thread_([this, &watch, wish = std::move(wish)] {
        while (true) {
          watch.Take();
          if (AsksForOther(watch.Value(wish.label), wish)) {
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
