// What writes to sysfs do, as data: the same files are held against a real kernel in a virtual
// machine (tests/kernel) and against the simulated sysfs, so that the two cannot drift apart.
// tests/kernel/README.md describes the files.
#pragma once

#include <expected>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation::sysfs {

// Something with a /sys and a /dev. Paths are like "sys/bus/pci/devices/0000:1b:00.0/driver".
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Errno Write(const std::string& path, const std::string& value) = 0;
  virtual std::expected<std::string, Errno> Read(const std::string& path) = 0;
  // Where a link leads, as written in it.
  virtual std::expected<std::string, Errno> ReadLink(const std::string& path) = 0;
  virtual std::expected<std::vector<std::string>, Errno> List(const std::string& path) = 0;
  virtual Errno CreateFile(const std::string& path) = 0;
  virtual Errno RemoveFile(const std::string& path) = 0;
  // False: nothing is known of paths there (for example of "dev/").
  [[nodiscard]] virtual bool Knows(const std::string& path) const = 0;
};

// Files below `root`.
class FileSubject : public Subject {
 public:
  explicit FileSubject(std::filesystem::path root) : root_(std::move(root)) {}
  Errno Write(const std::string& path, const std::string& value) override;
  std::expected<std::string, Errno> Read(const std::string& path) override;
  std::expected<std::string, Errno> ReadLink(const std::string& path) override;
  std::expected<std::vector<std::string>, Errno> List(const std::string& path) override;
  Errno CreateFile(const std::string& path) override;
  Errno RemoveFile(const std::string& path) override;
  [[nodiscard]] bool Knows(const std::string&) const override { return true; }

 private:
  std::filesystem::path root_;
};

struct Outcome {
  std::size_t steps = 0;              // that were tried
  std::vector<std::string> failures;  // "bind.yaml:12: ..."
};

// Tries one file, with `names` for its {names}; what its steps find out is added. kInvalid
// "MalformedExpectations" for a file that is not as the README says; nothing after the first
// malformed step has been tried.
base::Result<Outcome> TryExpectations(const std::filesystem::path& file,
                                      std::map<std::string, std::string> names, Subject& subject);

}  // namespace pitcrew::simulation::sysfs
