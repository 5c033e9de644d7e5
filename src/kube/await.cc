#include "kube/await.h"

#include <algorithm>

#include "codec/json.h"
#include "kube/projection.h"

namespace pitcrew::kube {

base::Status AwaitGone(std::shared_ptr<Client> client, const ResourceKind& kind,
                       const std::set<std::string>& uids, InformerOptions options,
                       const io::StopToken& stop, base::Deadline deadline) {
  return Await<std::string>(
      std::move(client), kind,
      ProjectJson<std::string>([](const codec::Json& object) -> base::Result<std::string> {
        return codec::FindString(object, {"metadata", "uid"});
      }),
      std::move(options),
      [&](const Store<std::string>& store) -> base::Result<bool> {
        const auto there = store.Snapshot();
        return std::ranges::none_of(
            there, [&](const auto& entry) { return uids.contains(*entry.second); });
      },
      stop, deadline);
}

}  // namespace pitcrew::kube
