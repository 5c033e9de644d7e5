// An OCI runtime specification (a bundle's config.json) that can be read, edited and written back.
// Members that this code does not know are kept as they are: a newer runtime's fields are not lost
// (upstream refuses them, container-toolkit.md 7.1).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::oci {

struct Mount {
  std::string destination;
  std::string type;
  std::string source;
  std::vector<std::string> options;
};

struct Device {
  std::string path;
  std::string type;  // "c", "b", "p", "u"
  std::int64_t major = 0;
  std::int64_t minor = 0;
  std::optional<std::uint32_t> file_mode;  // permission bits
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
};

struct Hook {
  std::string path;
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::optional<int> timeout;  // seconds
};

class Spec {
 public:
  // `source` names the text in errors. kInvalid when it is not a JSON object or a member that is
  // read here has another kind than the OCI specification gives it.
  static base::Result<Spec> Parse(std::string_view text, std::string_view source = "config.json");

  // Compact JSON with a newline, with <, > and & escaped as upstream's writer does
  // (container-toolkit.md 2.4).
  [[nodiscard]] std::string ToText() const;
  [[nodiscard]] const codec::Json& json() const { return json_; }

  // process.env, entries of the form NAME=value.
  [[nodiscard]] std::vector<std::string> env() const;
  [[nodiscard]] std::optional<std::string> FindEnv(std::string_view name) const;
  // Annotations sorted by key.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> annotations() const;
  [[nodiscard]] std::vector<Mount> mounts() const;
  // root.path as written: may be relative to the bundle. Empty when missing.
  [[nodiscard]] std::string root_path() const;
  // Whether the bounding set has `capability` ("CAP_SYS_ADMIN").
  [[nodiscard]] bool HasBoundingCapability(std::string_view capability) const;

  // `entry` is NAME=value: replaces the variables of that name in the place of the first, else is
  // appended.
  void SetEnv(std::string_view entry);
  // Takes the place of devices of the same path. Character and block devices also get an allow rule
  // with `access` ("rwm") in linux.resources.devices, none when it is "".
  void SetDevice(const Device& device, std::string_view access);
  // Comes last, and instead of a mount of the same destination.
  void SetMount(const Mount& mount);
  // Stable, parents before what is mounted below them.
  void SortMounts();
  // `phase` is prestart, createRuntime, createContainer, startContainer, poststart or poststop.
  void AddHook(std::string_view phase, const Hook& hook);
  // Removes the hooks of `phase` whose path satisfies `unwanted`; returns how many.
  std::size_t RemoveHooks(std::string_view phase,
                          const std::function<bool(const std::string&)>& unwanted);
  // Adds supplementary group ids that are not there yet; 0 is skipped.
  void AddAdditionalGids(const std::vector<std::uint32_t>& gids);
  // Owner that the container's process runs as; absent when it is not given.
  [[nodiscard]] std::optional<std::uint32_t> process_uid() const;
  [[nodiscard]] std::optional<std::uint32_t> process_gid() const;
  // linux.netDevices[host_name] = {"name": name}.
  void SetNetDevice(const std::string& host_name, const std::string& name);
  // Replaces linux.intelRdt.
  void SetIntelRdt(codec::Json value);

 private:
  explicit Spec(codec::Json json) : json_(std::move(json)) {}
  codec::Json json_;
};

}  // namespace pitcrew::oci
