// What the author of an image or of a pod has written, and a hook or the container runtime reads as
// the host's root.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/ld_cache.h"
#include "base/strings.h"
#include "fuzz/files.h"
#include "fuzz/target.h"
#include "oci/spec.h"
#include "shim/cdi_hook.h"
#include "shim/config.h"
#include "shim/ld_cache_update.h"
#include "shim/loader_folders.h"
#include "shim/requirements.h"
#include "shim/runtime.h"

namespace pitcrew::fuzz {
namespace {

namespace fs = std::filesystem;

// Files of an image's dynamic loader: ld.so.conf, two files that it may include, the cache, and
// musl's list of folders.
void ReadLoaderFiles(std::string_view input) {
  static const Folder folder;
  std::error_code ignored;
  fs::remove_all(folder.path() / "root", ignored);
  const auto parts = Parts(input, 5);
  folder.Write("root/etc/ld.so.conf", parts[0]);
  folder.Write("root/etc/ld.so.conf.d/a.conf", parts[1]);
  folder.Write("root/etc/ld.so.conf.d/00-compat-b.conf", parts[2]);
  folder.Write("root/etc/ld-musl-x86_64.path", parts[3]);
  folder.Write("root/etc/alpine-release", "3.20\n");
  folder.Write("root/etc/ld.so.cache", parts[4]);
  folder.Write("root/opt/driver/libx.so.1", "no library");
  const auto root = shim::ContainerRoot::Open(folder.path() / "root");
  Check(root.has_value(), "a folder can be a root");
  if (!shim::UpdateLdCache(*root, {"/opt/driver"})) return;
  const auto cache = root->ReadFile("/etc/ld.so.cache");
  Check(cache && base::ParseLdCache(*cache), "what is written is a cache");
  const auto folders = shim::ReadLoaderFolders(*root);
  Check(folders && (std::ranges::find(folders->folders, "/opt/driver") != folders->folders.end() ||
                    base::ReadFile(folder.path() / "root/etc/ld.so.conf").has_value()),
        "the folder is named where the loader's configuration is ours");
  Check(shim::UpdateLdCache(*root, {"/opt/driver"}).has_value(), "a hook can run once more");
}

// The state of a container on a hook's standard input, and the hook's arguments, one a line.
void ReadHookInput(std::string_view input) {
  const auto parts = Parts(input, 2);
  (void)shim::ContainerRootPath(parts[0]);
  const auto words = base::Split(parts[1], '\n');
  const auto flags = shim::HookFlags::Parse(words, {"link", "folder"}, {"quiet"});
  if (!flags) return;
  Check(flags->All("link").size() <= words.size(), "no more values than words");
  (void)flags->Last("folder", "none");
  (void)flags->Last("quiet");
}

// Specifications of a node: what a container may get at most.
const Folder& NodeSpecifications() {
  static const Folder folder;
  static const bool written = [] {
    for (const char* kind : {"nvidia.com/gpu", "runtime.nvidia.com/gpu"}) {
      folder.Write(std::string(kind).substr(0, std::string(kind).find('.')) + ".json",
                   std::string(R"({"cdiVersion":"0.7.0","kind":")") + kind +
                       R"(","annotations":{"runtime.nvidia.com/cuda-version":"13.0",)"
                       R"("runtime.nvidia.com/driver-version":"580.95.05"},"devices":[)"
                       R"({"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0",)"
                       R"("type":"c","major":195,"minor":0}]}},)"
                       R"({"name":"all","containerEdits":{"mounts":[{"hostPath":"/usr/lib/x.so",)"
                       R"("containerPath":"/usr/lib/x.so"}]}}],"containerEdits":{"env":["A=B"]}})");
    }
    return true;
  }();
  (void)written;
  return folder;
}

// config.toml, and the config.json with a container's variables, mounts, annotations and
// capabilities.
void EditContainer(std::string_view input) {
  const auto parts = Parts(input, 2);
  auto config = shim::ParseConfig(parts[0], "input");
  const auto asked = oci::Spec::Parse(parts[1]);
  if (!config || !asked) return;
  config->spec_folders = {NodeSpecifications().path()};
  config->driver_root = NodeSpecifications().path();
  std::vector<std::string> sources = {"/usr/lib/x.so"};
  for (const auto& mount : asked->mounts()) sources.push_back(mount.source);
  const shim::Report silent;
  for (const char* mode : {"", "cdi", "legacy"}) {
    auto spec = oci::Spec::Parse(parts[1]);
    if (!shim::EditSpec(*spec, *config, mode, silent)) continue;
    const auto again = oci::Spec::Parse(spec->ToText());
    Check(again && again->json() == spec->json(), "what is written reads as the same");
    for (const auto& mount : spec->mounts()) {
      Check(std::ranges::find(sources, mount.source) != sources.end(),
            "mounted is what the engine or a specification says, and nothing else");
    }
  }
}

// NVIDIA_REQUIRE_* and CUDA_VERSION.
void ReadRequirements(std::string_view input) {
  const auto unknown = shim::IsMet(input, {});
  Check(!unknown || *unknown, "what is not known is met");
  const auto known = shim::IsMet(
      input, {{"cuda", "13.0"}, {"driver", "580.95.05"}, {"arch", "9.0"}, {"brand", "nvidia"}});
  Check(known.has_value() == unknown.has_value(), "whether it can be read the node does not say");
  const auto version = shim::MajorMinor(input);
  if (!version) return;
  const auto again = shim::MajorMinor(*version);
  Check(again && *again == *version, "a version's short form is its own");
  Check(shim::IsMet("cuda>=" + *version, {}).has_value(), "and can be required");
}

constexpr Target kTargets[] = {{"loader_files", ReadLoaderFiles},
                               {"hook_input", ReadHookInput},
                               {"container_request", EditContainer},
                               {"requirement", ReadRequirements}};

}  // namespace

std::span<const Target> ImageTargets() { return kTargets; }

}  // namespace pitcrew::fuzz
