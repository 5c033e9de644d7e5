#include "node/mig_manager/superseded.h"

#include <utility>

#include "api/labels.h"

namespace pitcrew::node::mig_manager {

SupersededStop::SupersededStop(own_node::LabelWatch& watch, std::string wanted,
                               const io::StopToken& stop)
    : stop_(io::StopSource::LinkedTo(stop)), thread_([this, &watch, wanted = std::move(wanted)] {
        while (true) {
          watch.Take();
          const auto value = watch.Value(api::kMigConfig);
          // Unknown is not another value.
          if (value.is_absent() || (value.is_present() && *value.value() != wanted)) {
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

}  // namespace pitcrew::node::mig_manager
