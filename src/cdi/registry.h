// All CDI devices of a machine: the specification files of several folders.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "cdi/spec.h"

namespace pitcrew::cdi {

// Folders of specifications, lowest priority first.
inline constexpr std::string_view kDefaultSpecFolders[] = {"/etc/cdi", "/var/run/cdi"};

class Registry {
 public:
  // Reads *.json and *.yaml of the folders in order; a later folder has priority. A missing folder
  // is empty. A device that two files of one folder define is a conflict and is not offered at all
  // (container-toolkit.md 7.4). Broken files end up in errors() and hide nothing else.
  // With `kinds`, files that cannot define one of these kinds are skipped unread by the parser.
  static Registry Load(const std::vector<std::filesystem::path>& folders,
                       std::span<const std::string> kinds = {});

  [[nodiscard]] const std::vector<base::Error>& errors() const { return errors_; }
  // Qualified names, sorted.
  [[nodiscard]] std::vector<std::string> DeviceNames() const;

  // The specifications of which the devices of this kind are, sorted by the devices' names.
  [[nodiscard]] std::vector<const Spec*> SpecsOf(std::string_view kind) const;

  // What specification and device say of a device, by annotations; of one that says nothing itself
  // (as "all"), the annotations of all devices of its specification that do. Empty when nothing is
  // said, or there is no such device.
  [[nodiscard]] std::vector<Annotations> FindAnnotations(const std::string& name) const;

  // The edits of the named devices in their order: each specification's common edits once, before
  // its first device. kNotFound lists what is missing: "unresolvable CDI devices a, b".
  [[nodiscard]] base::Result<ContainerEdits> Resolve(std::span<const std::string> names) const;

 private:
  struct Entry {
    std::shared_ptr<const Spec> spec;
    std::size_t device = 0;  // index in spec->devices
    std::size_t folder = 0;  // index of the folder: the priority
    std::string path;        // of the file
  };
  void AddFile(const std::filesystem::path& path, std::size_t folder,
               std::span<const std::string> kinds, std::vector<std::string>& conflicts);

  std::map<std::string, Entry> devices_;
  std::vector<base::Error> errors_;
};

}  // namespace pitcrew::cdi
