#include "shim/cuda_compat.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>

#include "base/elf.h"
#include "base/strings.h"
#include "codec/json.h"

namespace pitcrew::shim {
namespace {

using Version = std::vector<std::uint64_t>;

std::optional<Version> ParseVersion(std::string_view text) {
  Version version;
  for (const auto& part : base::Split(text, '.')) {
    const auto number = base::ParseUnsigned(part);
    if (!number) return std::nullopt;
    version.push_back(*number);
  }
  return version;
}

// The one regular libcuda.so.<major>.<minor> of the folder; empty when there is none or several.
base::Result<std::string> FindCompatLibrary(const ContainerRoot& root, const std::string& folder) {
  TRY_ASSIGN(const auto names, root.List(folder));
  std::string found;
  for (const auto& name : names) {
    if (::fnmatch("libcuda.so.*.*", name.c_str(), 0) != 0) continue;
    if (root.ReadLink(folder + "/" + name) || !root.OpenFile(folder + "/" + name)) continue;
    if (!found.empty()) return std::string();
    found = name;
  }
  return found;
}

}  // namespace

base::Result<CompatNote> ParseCompatNote(std::string_view section) {
  constexpr std::string_view kOwner = "NVIDIA Corporation";
  std::uint32_t sizes[3];  // name, description, type
  const auto invalid = [](std::string_view what) {
    return base::Fail(base::Invalid("InvalidCompatNote", std::string(what)));
  };
  if (section.size() < sizeof(sizes)) return invalid("the note is cut short");
  std::memcpy(sizes, section.data(), sizeof(sizes));
  const std::uint64_t name_end =
      sizeof(sizes) + ((std::uint64_t{sizes[0]} + 3) & ~std::uint64_t{3});
  if (name_end + sizes[1] > section.size()) return invalid("the note is cut short");
  std::string_view owner = section.substr(sizeof(sizes), sizes[0]);
  owner = owner.substr(0, owner.find('\0'));
  if (owner != kOwner) return invalid("the note is not NVIDIA's");
  std::string_view text = section.substr(name_end, sizes[1]);
  text = text.substr(0, text.find('\0'));
  TRY_ASSIGN(const codec::Json json, codec::ParseJson(text, "the compatibility note"));
  CompatNote note;
  note.cuda_version = codec::FindString(json, {"CUDA Version"});
  if (const auto* branches = codec::Find(json, {"Driver"});
      branches != nullptr && branches->is_array()) {
    for (const auto& branch : *branches) {
      if (branch.is_number_unsigned()) note.driver_branches.push_back(branch.get<unsigned>());
      if (!branch.is_string()) continue;
      if (const auto number = base::ParseUnsigned(branch.get<std::string>())) {
        note.driver_branches.push_back(static_cast<unsigned>(*number));
      }
    }
  }
  return note;
}

bool UseCompat(const std::optional<CompatNote>& note, std::string_view compat_version,
               const CompatOptions& options) {
  const auto host = ParseVersion(options.host_driver_version);
  const auto compat = ParseVersion(compat_version);
  if (note) {
    if (host && compat) {
      const auto& branches = note->driver_branches;
      return std::ranges::find(branches, host->front()) != branches.end() && *compat > *host;
    }
    const auto host_cuda = ParseVersion(options.host_cuda_version);
    const auto note_cuda = ParseVersion(note->cuda_version);
    return host_cuda && note_cuda && *note_cuda > *host_cuda;
  }
  if (!options.host_cuda_version.empty()) return false;
  return host && compat && host->front() < compat->front();
}

base::Status EnableCudaCompat(const ContainerRoot& root, const CompatOptions& options) {
  if (options.host_driver_version.empty() && options.host_cuda_version.empty()) return {};
  const auto resolved = root.Resolve(options.compat_folder);
  if (!resolved && resolved.error().code == base::Code::kNotFound) return {};
  if (!resolved) return base::Fail(resolved.error());
  TRY_ASSIGN(const std::string library, FindCompatLibrary(root, *resolved));
  if (library.empty()) return {};
  TRY_ASSIGN(const auto file, root.OpenFile(*resolved + "/" + library));
  std::optional<CompatNote> note;
  if (const auto section = base::ReadElfSection(file.get(), ".note.cuda.fwd_compatibility")) {
    if (auto parsed = ParseCompatNote(*section)) note = *std::move(parsed);
  }
  const std::string version = library.substr(std::string_view("libcuda.so.").size());
  if (!UseCompat(note, version, options)) return {};
  return root.WriteFile(fmt::format("/etc/ld.so.conf.d/00-compat-{}.conf", RandomName()),
                        *resolved + "\n", 0644);
}

}  // namespace pitcrew::shim
