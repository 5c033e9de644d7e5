#include "cdi/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "cdi/name.h"

namespace pitcrew::cdi {
namespace {

// Sorted, so that the outcome does not depend on the order of a folder's entries.
std::vector<std::filesystem::path> SpecFiles(const std::filesystem::path& folder,
                                             std::vector<base::Error>& errors) {
  std::vector<std::filesystem::path> files;
  std::error_code problem;
  for (auto it = std::filesystem::directory_iterator(folder, problem);
       !problem && it != std::filesystem::directory_iterator(); it.increment(problem)) {
    const auto extension = it->path().extension();
    if (extension == ".json" || extension == ".yaml") files.push_back(it->path());
  }
  if (problem && problem.value() != ENOENT) {
    errors.push_back(base::FromErrno(problem.value(), "list " + folder.string()));
  }
  std::ranges::sort(files);
  return files;
}

// A file that does not have a kind's text cannot define it, except through escapes.
bool MayDefine(const std::string& text, std::span<const std::string> kinds) {
  if (kinds.empty() || text.find('\\') != std::string::npos) return true;
  return std::ranges::any_of(
      kinds, [&](const std::string& kind) { return text.find(kind) != std::string::npos; });
}

}  // namespace

void Registry::AddFile(const std::filesystem::path& path, std::size_t folder,
                       std::span<const std::string> kinds, std::vector<std::string>& conflicts) {
  const auto text = base::ReadFile(path);
  if (!text) {
    if (text.error().code != base::Code::kNotFound) errors_.push_back(text.error());
    return;
  }
  if (!MayDefine(*text, kinds)) return;
  auto parsed = ParseSpec(*text, path.string());
  if (!parsed) {
    errors_.push_back(parsed.error());
    return;
  }
  // Who writes one may leave it to us; in a file of somebody's it says how to read the rest.
  if (parsed->version.empty()) {
    errors_.push_back(
        base::Invalid("InvalidCdiSpec", path.string() + ": it has no cdiVersion; add one"));
    return;
  }
  if (const auto valid = Validate(*parsed); !valid) {
    errors_.push_back(valid.error().Within(path.string()));
    return;
  }
  const auto spec = std::make_shared<const Spec>(*std::move(parsed));
  for (std::size_t i = 0; i < spec->devices.size(); ++i) {
    const std::string name = spec->kind + "=" + spec->devices[i].name;
    const auto [entry, added] = devices_.try_emplace(name, Entry{spec, i, folder, path.string()});
    if (added) continue;
    if (entry->second.folder == folder) {
      errors_.push_back(base::Invalid(
          "ConflictingCdiDevice",
          fmt::format("{} is defined by both {} and {}", name, entry->second.path, path.string())));
      conflicts.push_back(name);
    } else {
      entry->second = Entry{spec, i, folder, path.string()};
    }
  }
}

Registry Registry::Load(const std::vector<std::filesystem::path>& folders,
                        std::span<const std::string> kinds) {
  Registry registry;
  std::vector<std::string> conflicts;
  for (std::size_t folder = 0; folder < folders.size(); ++folder) {
    for (const auto& file : SpecFiles(folders[folder], registry.errors_)) {
      registry.AddFile(file, folder, kinds, conflicts);
    }
  }
  for (const auto& name : conflicts) registry.devices_.erase(name);
  return registry;
}

std::vector<std::string> Registry::DeviceNames() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : devices_) names.push_back(name);
  return names;
}

std::vector<const Spec*> Registry::SpecsOf(std::string_view kind) const {
  std::vector<const Spec*> specs;
  for (const auto& [name, entry] : devices_) {
    const Spec* spec = entry.spec.get();
    if (spec->kind == kind && std::ranges::find(specs, spec) == specs.end()) specs.push_back(spec);
  }
  return specs;
}

std::vector<Annotations> Registry::FindAnnotations(const std::string& name) const {
  const auto found = devices_.find(name);
  if (found == devices_.end()) return {};
  const Spec& spec = *found->second.spec;
  const Device& device = spec.devices[found->second.device];
  std::vector<Annotations> all;
  for (const auto& each : spec.devices) {
    const bool counts = device.annotations.empty() ? !each.annotations.empty() : &each == &device;
    if (!counts) continue;
    all.push_back(each.annotations);
    all.back().insert(spec.annotations.begin(), spec.annotations.end());
  }
  if (all.empty() && !spec.annotations.empty()) all.push_back(spec.annotations);
  return all;
}

base::Result<ContainerEdits> Registry::Resolve(std::span<const std::string> names) const {
  ContainerEdits edits;
  std::set<const Spec*> seen;
  std::vector<std::string> missing;
  for (const auto& name : names) {
    const auto entry = devices_.find(name);
    if (entry == devices_.end()) {
      missing.push_back(name);
      continue;
    }
    const Spec& spec = *entry->second.spec;
    if (seen.insert(&spec).second) edits.Append(spec.edits);
    edits.Append(spec.devices[entry->second.device].edits);
  }
  if (!missing.empty()) {
    return base::Fail(base::NotFound("UnresolvableCdiDevices",
                                     "unresolvable CDI devices " + SomeNames(std::move(missing))));
  }
  return edits;
}

}  // namespace pitcrew::cdi
