#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/elf.h"
#include "base/file_descriptor.h"
#include "base/ld_cache.h"
#include "cdi/apply.h"
#include "cdi/block_yaml.h"
#include "cdi/format.h"
#include "cdi/name.h"
#include "fuzz/target.h"
#include "nri/framing.h"
#include "nri/plugin.h"
#include "oci/spec.h"
#include "shim/config.h"
#include "shim/cuda_compat.h"

namespace pitcrew::fuzz {
namespace {

void ReadOciSpec(std::string_view input) {
  auto spec = oci::Spec::Parse(input);
  if (!spec) return;
  (void)spec->env();
  (void)spec->annotations();
  (void)spec->mounts();
  (void)spec->HasBoundingCapability("CAP_SYS_ADMIN");
  spec->SetEnv("A=b");
  spec->SetDevice({.path = "/dev/nvidia0",
                   .type = "c",
                   .major = 195,
                   .minor = 0,
                   .file_mode = 0666,
                   .uid = {},
                   .gid = {}},
                  "rwm");
  spec->SetMount({.destination = "/a/b", .type = "bind", .source = "/c", .options = {"ro"}});
  spec->SortMounts();
  spec->AddHook("prestart", {.path = "/bin/hook", .args = {}, .env = {}, .timeout = 1});
  (void)spec->RemoveHooks("prestart", [](const std::string& path) { return path.empty(); });
  spec->AddAdditionalGids({0, 1});
  (void)spec->process_uid();
  (void)spec->process_gid();
  spec->SetNetDevice("eth0", "net0");
  const auto again = oci::Spec::Parse(spec->ToText());
  Check(again && again->json() == spec->json(),
        "an edited specification reads as what was written");
}

void ReadCdiSpec(std::string_view input) {
  const auto spec = cdi::ParseSpec(input, "input");
  if (const auto plain = cdi::ReadBlockYaml(input)) {
    // A comment makes it a text for the YAML parser.
    const auto as_yaml = cdi::ParseSpec(std::string(input) + "# YAML\n", "input");
    Check(as_yaml && *as_yaml == *plain, "the plain form reads as YAML does");
  }
  if (!spec || !cdi::Validate(*spec)) return;
  (void)cdi::MinimumVersion(*spec);
  const std::string text = cdi::ToYamlText(*spec);
  const auto again = cdi::ParseSpec(text, "again");
  Check(again && cdi::ToYamlText(*again) == text, "a specification that is written reads the same");
  auto container = oci::Spec::Parse(R"({"ociVersion":"1.0.0","process":{},"linux":{}})");
  for (const auto& device : spec->devices) {
    (void)cdi::Apply(device.edits, *container,
                     [](const std::string&) -> base::Result<cdi::NodeInfo> {
                       return cdi::NodeInfo{.type = "c", .major = 1, .minor = 3, .file_mode = 0666};
                     });
  }
}

void ReadCdiName(std::string_view input) { (void)cdi::ParseQualifiedName(input); }

void ReadLdCache(std::string_view input) {
  const auto cache = base::ParseLdCache(input);
  if (!cache) return;
  const std::string text = base::WriteLdCache(*cache);
  const auto again = base::ParseLdCache(text);
  Check(again && base::WriteLdCache(*again) == text, "a cache that is written reads the same");
}

void ReadElf(std::string_view input) {
  static const base::FileDescriptor file(::memfd_create("input", MFD_CLOEXEC));
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
    return;
  }
  (void)base::ReadElfLibrary(file.get());
  const auto note = base::ReadElfSection(file.get(), ".note.cuda.fwd_compatibility", 4096);
  if (note) {
    Check(note->size() <= 4096, "no more than the limit is read");
    (void)shim::ParseCompatNote(*note);
  }
}

void ReadCompatNote(std::string_view input) {
  const auto note = shim::ParseCompatNote(input);
  (void)shim::UseCompat(note ? std::optional(*note) : std::nullopt, "590.48.01",
                        {.host_driver_version = "580.95.05", .host_cuda_version = "13.0"});
}

void ReadShimConfig(std::string_view input) { (void)shim::ParseConfig(input, "input"); }

class GivesAll final : public nri::Handler {
 public:
  base::Status Configure(const nri::Runtime& /*runtime*/) override { return {}; }
  void TakeExisting(const nri::Container& /*container*/) override {}
  base::Result<std::vector<std::string>> DevicesFor(const nri::Container& container) override {
    return std::vector<std::string>{container.pod_name};
  }
};

// What a container runtime says to an NRI plugin, in one piece and byte by byte.
void HearRuntime(std::string_view input) {
  GivesAll handler;
  const auto talk = [&](std::size_t step) {
    nri::Conversation conversation({"plugin", 10}, handler);
    std::string out;
    for (std::size_t at = 0; at < input.size(); at += step) {
      const auto answer = conversation.Receive(input.substr(at, step));
      if (!answer) break;
      out += *answer;
    }
    return out;
  };
  const auto bytewise = talk(1);
  Check(talk(std::max<std::size_t>(input.size(), 1)).size() <= bytewise.size(),
        "an answer does not depend on borders, but for those before the end of a broken trunk");
  Check(bytewise.size() <= 64 + input.size() * 64, "answers are bounded by what was asked");
}

constexpr Target kTargets[] = {{"nri", HearRuntime},
                               {"oci_spec", ReadOciSpec},
                               {"cdi_spec", ReadCdiSpec},
                               {"cdi_name", ReadCdiName},
                               {"ld_cache", ReadLdCache},
                               {"elf", ReadElf},
                               {"compat_note", ReadCompatNote},
                               {"shim_config", ReadShimConfig}};

}  // namespace

std::span<const Target> ContainerTargets() { return kTargets; }

}  // namespace pitcrew::fuzz
