#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/file.h"
#include "base/strings.h"
#include "host/root.h"
#include "node/nfd/sources.h"

namespace pitcrew::node::nfd {
namespace {

constexpr off_t kLargestFile = 65536;
constexpr std::string_view kDirective = "# +";

// Reads one file line by line: a directive acts on the lines after it (6.10).
class FeatureFileReader {
 public:
  FeatureFileReader(std::string_view file, base::WallClock::time_point now)
      : file_(file), now_(now) {}

  void ReadLine(std::string_view line) {
    if (line.empty()) return;
    if (line.starts_with(kDirective)) return ReadDirective(line.substr(kDirective.size()));
    if (line.starts_with('#')) return;
    ReadFeature(line);
  }
  FeatureFile Take() { return std::move(result_); }

 private:
  void ReadDirective(std::string_view text) {
    constexpr std::string_view kExpiry = "expiry-time=";
    if (text == "no-label") {
      skip_label_ = true;
    } else if (text == "no-feature") {
      skip_feature_ = true;
    } else if (text.starts_with(kExpiry)) {
      const auto time = base::ParseRfc3339(text.substr(kExpiry.size()));
      if (!time) return LeaveOut("an expiry time that is not RFC 3339", text);
      expiry_ = *time;
    } else {
      LeaveOut("an unknown directive", text);
    }
  }

  void ReadFeature(std::string_view line) {
    // An expired line takes the one-line directives before it along: they were meant for it.
    const bool skip_feature = std::exchange(skip_feature_, false);
    const bool skip_label = std::exchange(skip_label_, false);
    if (expiry_ && *expiry_ < now_) return;
    if (expiry_ && (!result_.next_expiry || *expiry_ < *result_.next_expiry)) {
      result_.next_expiry = expiry_;
    }
    const auto equals = line.find('=');
    const std::string key(line.substr(0, equals));
    const std::string value(equals == std::string_view::npos ? "true" : line.substr(equals + 1));
    Set(result_.features, key, value, skip_feature);
    Set(result_.labels, key, value, skip_label);
  }

  static void Set(Attributes& map, const std::string& key, const std::string& value, bool skip) {
    if (skip) {
      map.erase(key);
    } else {
      map[key] = value;
    }
  }

  void LeaveOut(std::string_view what, std::string_view line) {
    result_.left_out.push_back(base::Invalid(
        "MalformedFeatureFile", fmt::format("feature file {} has {}: \"{}\"", file_, what, line)));
  }

  std::string_view file_;
  base::WallClock::time_point now_;
  FeatureFile result_;
  std::optional<base::WallClock::time_point> expiry_;
  bool skip_label_ = false;
  bool skip_feature_ = false;
};

// kNotFound for what is gone or no regular file (links followed), kInvalid for what is too large.
base::Result<std::string> ReadFeatureFile(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return base::Fail(base::FromErrno(errno, fmt::format("look at {}", path.string())));
  }
  if (!S_ISREG(info.st_mode)) {
    return base::Fail(base::NotFound("NotAFile", path.string() + " is not a regular file"));
  }
  if (info.st_size > kLargestFile) {
    return base::Fail(base::Invalid("FeatureFileTooLarge",
                                    fmt::format("feature file {} has {} bytes; at most {} are read",
                                                path.string(), info.st_size, kLargestFile)));
  }
  return base::ReadFile(path);
}

}  // namespace

FeatureFile ParseFeatureFile(std::string_view text, std::string_view name,
                             base::WallClock::time_point now) {
  FeatureFileReader reader(name, now);
  for (const auto& line : base::Split(text, '\n')) reader.ReadLine(base::Trim(line));
  return reader.Take();
}

base::Result<LocalDiscovery> DiscoverLocal(const HostPaths& paths,
                                           base::WallClock::time_point now) {
  LocalDiscovery found;
  const auto names = host::ListFolder(paths.features);
  if (!names) {
    if (names.error().code == base::Code::kNotFound) return found;
    return base::Fail(names.error());
  }
  auto& features = found.discovery.features.attributes["local.feature"];
  auto& labels = found.discovery.features.attributes["local.label"];
  auto& left_out = found.discovery.left_out;
  for (const auto& name : *names) {
    if (name.starts_with('.')) continue;
    auto text = ReadFeatureFile(paths.features / name);
    if (!text) {
      if (text.error().code == base::Code::kNotFound) continue;
      if (text.error().code != base::Code::kInvalid) return base::Fail(std::move(text).error());
      left_out.push_back(std::move(text).error());
      continue;
    }
    const auto file = ParseFeatureFile(*text, name, now);
    left_out.insert(left_out.end(), file.left_out.begin(), file.left_out.end());
    for (const auto& [key, value] : file.features) features[key] = value;
    for (const auto& [key, value] : file.labels) labels[key] = value;
    if (file.next_expiry && (!found.next_expiry || *file.next_expiry < *found.next_expiry)) {
      found.next_expiry = file.next_expiry;
    }
  }
  found.discovery.labels = labels;
  return found;
}

}  // namespace pitcrew::node::nfd
