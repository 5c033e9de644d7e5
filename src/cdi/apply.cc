#include "cdi/apply.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

namespace pitcrew::cdi {
namespace {

base::Status ApplyNode(const DeviceNode& node, oci::Spec& spec, const NodeLookup& look_up,
                       bool device_rules) {
  oci::Device device{node.path,      node.type, node.major, node.minor,
                     node.file_mode, node.uid,  node.gid};
  // A pipe has no numbers; everything else is looked up when type or numbers are missing.
  const bool complete = device.type == "p" || (!device.type.empty() && device.major != 0);
  // Type and number without a host path may give a device another name than the host has for it.
  const bool own_number = complete && node.host_path.empty();
  const std::string& host_path = node.host_path.empty() ? node.path : node.host_path;
  if (!own_number || !device.file_mode) {
    const auto info = look_up(host_path);
    if (!info && !complete) {
      return base::Fail(info.error().Within("device node of a CDI specification"));
    }
    if (info) {
      if (device.type.empty()) device.type = info->type;
      // "u", a character device without a buffer, is "c" to the kernel.
      if ((device.type == "u" ? "c" : device.type) != info->type) {
        return base::Fail(base::Invalid(
            "WrongDeviceType", fmt::format("{} is of type {}, the CDI specification says {}",
                                           host_path, info->type, device.type)));
      }
      // A driver that is loaded again can have another number than when the specification was
      // written, and another driver may have that number now.
      if (!own_number && device.type != "p") {
        device.major = info->major;
        device.minor = info->minor;
      }
      if (!device.file_mode) device.file_mode = info->file_mode;
    }
  }
  // The process must be able to open what it is given.
  if (const auto uid = spec.process_uid(); !device.uid && uid.value_or(0) != 0) device.uid = uid;
  if (const auto gid = spec.process_gid(); !device.gid && gid.value_or(0) != 0) device.gid = gid;
  const std::string access = node.permissions.empty() ? "rwm" : node.permissions;
  spec.SetDevice(device, device_rules ? std::string_view(access) : std::string_view());
  return {};
}

codec::Json ToJson(const IntelRdt& rdt) {
  codec::Json json = codec::Json::object();
  if (!rdt.clos_id.empty()) json["closID"] = rdt.clos_id;
  if (!rdt.l3_cache_schema.empty()) json["l3CacheSchema"] = rdt.l3_cache_schema;
  if (!rdt.mem_bw_schema.empty()) json["memBwSchema"] = rdt.mem_bw_schema;
  if (!rdt.schemata.empty()) json["schemata"] = rdt.schemata;
  if (rdt.enable_monitoring) json["enableMonitoring"] = true;
  if (rdt.enable_cmt) json["enableCMT"] = true;
  if (rdt.enable_mbm) json["enableMBM"] = true;
  return json;
}

}  // namespace

base::Result<NodeInfo> LookUpNode(const std::string& host_path) {
  struct stat info{};
  if (::lstat(host_path.c_str(), &info) != 0) {
    return base::Fail(base::FromErrno(errno, "look at " + host_path));
  }
  NodeInfo node{"", ::gnu_dev_major(info.st_rdev), ::gnu_dev_minor(info.st_rdev),
                info.st_mode & 07777};
  if (S_ISCHR(info.st_mode)) node.type = "c";
  if (S_ISBLK(info.st_mode)) node.type = "b";
  if (S_ISFIFO(info.st_mode)) node.type = "p";
  if (node.type.empty()) {
    return base::Fail(base::Invalid("NotADeviceNode", host_path + " is not a device node"));
  }
  return node;
}

base::Status Apply(const ContainerEdits& edits, oci::Spec& spec, const NodeLookup& look_up,
                   bool device_rules) {
  for (const auto& entry : edits.env) spec.SetEnv(entry);
  for (const auto& node : edits.device_nodes) TRY(ApplyNode(node, spec, look_up, device_rules));
  for (const auto& device : edits.net_devices) spec.SetNetDevice(device.host_name, device.name);
  for (const auto& mount : edits.mounts) {
    spec.SetMount({mount.container_path, mount.type, mount.host_path, mount.options});
  }
  if (!edits.mounts.empty()) spec.SortMounts();
  for (const auto& hook : edits.hooks) {
    spec.AddHook(hook.hook_name, {hook.path, hook.args, hook.env, hook.timeout});
  }
  if (edits.intel_rdt) spec.SetIntelRdt(ToJson(*edits.intel_rdt));
  spec.AddAdditionalGids(edits.additional_gids);
  return {};
}

}  // namespace pitcrew::cdi
