#include "node/device_plugin/health_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/strings.h"
#include "codec/json.h"
#include "host/kernel.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;
using codec::Json;
using Known = std::map<std::string, GpuHealth>;

constexpr int kVersion = 1;

// CLOCK_MONOTONIC goes on over the ends of processes and starts anew only with the boot.
std::int64_t ToNumber(base::SteadyClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Json ToJson(const HealthCause& cause) {
  return {{"kind", static_cast<int>(cause.kind)},      {"xid", cause.xid},
          {"effect", static_cast<int>(cause.effect)},  {"gpuInstance", cause.gpu_instance},
          {"computeInstance", cause.compute_instance}, {"lost", cause.lost},
          {"lastMilliseconds", ToNumber(cause.last)},  {"detail", cause.detail}};
}

HealthCause ToCause(const Json& json) {
  HealthCause cause;
  cause.kind = static_cast<HealthCause::Kind>(json.at("kind").get<int>());
  cause.xid = json.at("xid").get<std::uint64_t>();
  cause.effect = static_cast<gpu::XidEffect>(json.at("effect").get<int>());
  cause.gpu_instance = json.at("gpuInstance").get<std::uint32_t>();
  cause.compute_instance = json.at("computeInstance").get<std::uint32_t>();
  cause.lost = json.at("lost").get<bool>();
  cause.last = base::SteadyClock::time_point(
      std::chrono::milliseconds(json.at("lastMilliseconds").get<std::int64_t>()));
  cause.detail = json.at("detail").get<std::string>();
  return cause;
}

Json ToJson(const GpuHealth& health) {
  Json causes = Json::array();
  for (const auto& cause : health.causes) causes.push_back(ToJson(cause));
  Json json = {{"causes", std::move(causes)}};
  const auto& condition = health.condition;
  if (condition.recovery_action) {
    json["recoveryAction"] = static_cast<unsigned>(*condition.recovery_action);
  }
  if (condition.remap_pending) json["remapPending"] = *condition.remap_pending;
  return json;
}

GpuHealth ToHealth(const Json& json) {
  GpuHealth health;
  auto& condition = health.condition;
  if (json.contains("recoveryAction")) {
    condition.recovery_action =
        static_cast<nvml::RecoveryAction>(json.at("recoveryAction").get<unsigned>());
  }
  if (json.contains("remapPending")) condition.remap_pending = json.at("remapPending").get<bool>();
  const bool reset_can_be_seen =
      condition.recovery_action.has_value() || condition.remap_pending == true;
  for (const auto& entry : json.at("causes")) {
    auto cause = ToCause(entry);
    const bool needs_reset =
        cause.kind == HealthCause::Kind::kXid && cause.effect == gpu::XidEffect::kUntilReset;
    if (!needs_reset || reset_can_be_seen) health.causes.push_back(std::move(cause));
  }
  return health;
}

}  // namespace

Result<DriverInstance> DriverInstance::Read(const std::filesystem::path& proc,
                                            const std::filesystem::path& sys) {
  DriverInstance instance;
  TRY_ASSIGN(const auto boot, base::ReadFile(proc / "sys/kernel/random/boot_id"));
  instance.boot_id = base::Trim(boot);
  const auto module = host::ReadModuleInstance("nvidia", sys);
  if (module.is_unknown()) return base::Fail(*module.error());
  if (module.is_present()) instance.module_id = *module.value();
  return instance;
}

Result<Known> HealthFile::Load() const {
  const auto text = base::ReadFile(path_);
  if (!text && text.error().code == base::Code::kNotFound) return Known();
  if (!text) return base::Fail(text.error());
  TRY_ASSIGN(const auto json, codec::ParseJson(*text, path_.string()));
  try {
    const DriverInstance written{.boot_id = json.at("bootId").get<std::string>(),
                                 .module_id = json.at("moduleId").get<std::uint64_t>()};
    Known known;
    if (json.at("version").get<int>() != kVersion || written != instance_) return known;
    for (const auto& [gpu, entry] : json.at("gpus").items()) {
      auto health = ToHealth(entry);
      if (!health.causes.empty()) known[gpu] = std::move(health);
    }
    return known;
  } catch (const Json::exception& error) {
    return base::Fail(
        base::Invalid("HealthFileMalformed", fmt::format("{}: {}", path_.string(), error.what())));
  }
}

base::Status HealthFile::Save(const Known& known) {
  if (known.empty()) {
    written_.clear();
    if (::unlink(path_.c_str()) == 0 || errno == ENOENT) return {};
    return base::Fail(base::FromErrno(errno, fmt::format("remove {}", path_.string())));
  }
  Json gpus = Json::object();
  for (const auto& [gpu, health] : known) gpus[gpu] = ToJson(health);
  auto text = codec::ToPrettyJsonText({{"version", kVersion},
                                       {"bootId", instance_.boot_id},
                                       {"moduleId", instance_.module_id},
                                       {"gpus", std::move(gpus)}});
  if (text == written_) return {};
  TRY(base::WriteFileAtomically(path_, text));
  written_ = std::move(text);
  return {};
}

}  // namespace pitcrew::node::device_plugin
