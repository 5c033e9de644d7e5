#include "node/operand_pause/operand_pause.h"

#include <utility>

#include "desired/operand_table.h"
#include "workload/pause.h"

namespace pitcrew::node::operand_pause {
namespace {

using codec::Json;

void Write(const Values& values, std::string_view member, Json& patch) {
  for (const auto& [name, value] : values) {
    patch["metadata"][std::string(member)][std::string(name)] = value ? Json(*value) : Json();
  }
}

}  // namespace

OperandPause::OperandPause(own_node::OwnNode& node, Settings settings)
    : node_(node), settings_(std::move(settings)) {}

base::Status OperandPause::PauseAll(std::chrono::steady_clock::duration patience,
                                    const io::StopToken& stop) {
  std::vector<std::string_view> paused;
  TRY(node_.Change(
      [&](const Json& node) {
        paused = workload::PausedLabels(node, settings_.labels, settings_.word);
        return workload::PausePatch(node, paused, settings_.word);
      },
      stop));
  if (paused.empty()) return {};
  return workload::AwaitOperandsGone(node_.client(), node_.name(), settings_.namespace_name,
                                     desired::Operands().AppsOf(paused),
                                     base::SteadyClock::now() + patience, stop);
}

base::Status OperandPause::Resume(const Told& told, const io::StopToken& stop) const {
  const auto written = node_.Change(
      [&](const Json& node) -> std::optional<Json> {
        auto patch = workload::ResumePatch(node, settings_.labels, settings_.word);
        if (told.labels.empty() && told.annotations.empty()) return patch;
        Json all = std::move(patch).value_or(Json::object());
        Write(told.labels, "labels", all);
        Write(told.annotations, "annotations", all);
        return all;
      },
      stop);
  if (written) return {};
  if (written.error().code == base::Code::kCancelled) return base::Fail(written.error());
  return base::Fail(base::Unavailable("NotResumed", written.error().message));
}

}  // namespace pitcrew::node::operand_pause
