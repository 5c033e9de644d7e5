#include "simulation/sysfs/expectations/expectations.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/strings.h"

namespace pitcrew::simulation::sysfs {
namespace {

constexpr std::array<std::pair<std::string_view, Errno>, 11> kErrnos = {{{"ok", 0},
                                                                         {"EPERM", EPERM},
                                                                         {"ENOENT", ENOENT},
                                                                         {"EACCES", EACCES},
                                                                         {"EBUSY", EBUSY},
                                                                         {"EEXIST", EEXIST},
                                                                         {"ENODEV", ENODEV},
                                                                         {"EINVAL", EINVAL},
                                                                         {"ENOSPC", ENOSPC},
                                                                         {"ERANGE", ERANGE},
                                                                         {"ENOMEM", ENOMEM}}};

std::string NameOf(Errno number) {
  for (const auto& [name, value] : kErrnos) {
    if (value == number) return std::string(name);
  }
  return fmt::format("{} ({})", number, std::strerror(number));
}

struct Malformed {
  std::string what;
};

// Tries the steps one after the other. Steps are mappings whose first word says what is done.
class Trial {
 public:
  Trial(std::map<std::string, std::string> names, Subject& subject)
      : names_(std::move(names)), subject_(subject) {}

  // nullopt: as expected; else what was found instead.
  std::optional<std::string> Try(const YAML::Node& step) {
    constexpr std::array<std::pair<std::string_view, std::optional<std::string> (Trial::*)(
                                                         const YAML::Node&, const std::string&)>,
                         8>
        kKinds = {{{"write", &Trial::Write},
                   {"read", &Trial::Read},
                   {"link", &Trial::Link},
                   {"present", &Trial::Present},
                   {"absent", &Trial::Absent},
                   {"inside", &Trial::Inside},
                   {"create", &Trial::Create},
                   {"remove", &Trial::Remove}}};
    for (const auto& [name, method] : kKinds) {
      const YAML::Node path = step[std::string(name)];
      if (!path) continue;
      const std::string place = Filled(path.Scalar());
      if (!subject_.Knows(place)) return std::nullopt;
      ++tried_;
      return (this->*method)(step, place);
    }
    throw Malformed{"a step is one of write, read, link, present, absent, inside, create, remove"};
  }

  [[nodiscard]] std::size_t tried() const { return tried_; }

 private:
  std::string Filled(const std::string& text) {
    std::string filled;
    std::size_t at = 0;
    while (at < text.size()) {
      const auto open = text.find('{', at);
      filled += text.substr(at, open - at);
      if (open == std::string::npos) break;
      const auto close = text.find('}', open);
      if (close == std::string::npos) throw Malformed{"a { is not closed"};
      const std::string name = text.substr(open + 1, close - open - 1);
      const auto found = names_.find(name);
      if (found == names_.end()) throw Malformed{"nothing is named {" + name + "}"};
      filled += found->second;
      at = close + 1;
    }
    return filled;
  }

  static Errno Wanted(const YAML::Node& step) {
    const std::string word = step["gives"] ? step["gives"].Scalar() : "ok";
    for (const auto& [name, value] : kErrnos) {
      if (name == word) return value;
    }
    throw Malformed{"\"gives\" is no errno that is known here: " + word};
  }

  static std::optional<std::string> Compare(Errno found, Errno wanted) {
    if (found == wanted) return std::nullopt;
    return fmt::format("gave {}, expected {}", NameOf(found), NameOf(wanted));
  }

  std::optional<std::string> Write(const YAML::Node& step, const std::string& path) {
    if (!step["value"]) throw Malformed{"a write has a value"};
    return Compare(subject_.Write(path, Filled(step["value"].Scalar())), Wanted(step));
  }

  std::optional<std::string> Read(const YAML::Node& step, const std::string& path) {
    const auto text = subject_.Read(path);
    if (!text || step["gives"]) return Compare(text ? 0 : text.error(), Wanted(step));
    const std::string found(base::Trim(*text));
    if (step["as"]) names_[step["as"].Scalar()] = found;
    if (!step["is"]) return std::nullopt;
    const std::string wanted = Filled(step["is"].Scalar());
    if (found == wanted) return std::nullopt;
    return fmt::format("is \"{}\", expected \"{}\"", found, wanted);
  }

  std::optional<std::string> Link(const YAML::Node& step, const std::string& path) {
    const auto link = subject_.ReadLink(path);
    if (!link) return fmt::format("is no link ({})", NameOf(link.error()));
    const std::string found = link->substr(link->rfind('/') + 1);
    if (step["as"]) names_[step["as"].Scalar()] = found;
    if (!step["to"]) return std::nullopt;
    const std::string wanted = Filled(step["to"].Scalar());
    if (found == wanted) return std::nullopt;
    return fmt::format("leads to {}, expected {}", found, wanted);
  }

  // Listed by its folder: a link that leads nowhere is present.
  bool IsThere(const std::string& path) {
    const auto slash = path.rfind('/');
    const auto names = subject_.List(path.substr(0, slash));
    return names && std::ranges::find(*names, path.substr(slash + 1)) != names->end();
  }
  std::optional<std::string> Present(const YAML::Node&, const std::string& path) {
    if (IsThere(path)) return std::nullopt;
    return "is not there";
  }
  std::optional<std::string> Absent(const YAML::Node&, const std::string& path) {
    if (!IsThere(path)) return std::nullopt;
    return "is there";
  }

  std::optional<std::string> Inside(const YAML::Node& step, const std::string& path) {
    const auto names = subject_.List(path);
    if (!names) return fmt::format("cannot be listed ({})", NameOf(names.error()));
    for (const auto& word : step["has"]) {
      const std::string wanted = Filled(word.Scalar());
      if (std::ranges::find(*names, wanted) == names->end()) return "lacks " + wanted;
    }
    for (const auto& word : step["lacks"]) {
      const std::string other = Filled(word.Scalar());
      if (std::ranges::find(*names, other) != names->end()) return "has " + other;
    }
    if (!step["only"]) return std::nullopt;
    std::vector<std::string> wanted;
    for (const auto& word : step["only"]) wanted.push_back(Filled(word.Scalar()));
    std::ranges::sort(wanted);
    if (*names == wanted) return std::nullopt;
    return fmt::format("has {}, expected {}", base::Join(*names, " "), base::Join(wanted, " "));
  }

  std::optional<std::string> Create(const YAML::Node& step, const std::string& path) {
    return Compare(subject_.CreateFile(path), Wanted(step));
  }
  std::optional<std::string> Remove(const YAML::Node& step, const std::string& path) {
    return Compare(subject_.RemoveFile(path), Wanted(step));
  }

  std::map<std::string, std::string> names_;
  Subject& subject_;
  std::size_t tried_ = 0;
};

}  // namespace

base::Result<Outcome> TryExpectations(const std::filesystem::path& file,
                                      std::map<std::string, std::string> names, Subject& subject) {
  const std::string name = file.filename();
  const auto malformed = [&](int line, const std::string& what) {
    return base::Fail(
        base::Invalid("MalformedExpectations", fmt::format("{}:{}: {}", name, line, what)));
  };
  try {
    const YAML::Node root = YAML::LoadFile(file);
    if (!root["steps"] || !root["steps"].IsSequence()) return malformed(1, "there are no steps");
    Outcome outcome;
    Trial trial(std::move(names), subject);
    for (const auto& step : root["steps"]) {
      const int line = step.Mark().line + 1;
      try {
        if (const auto found = trial.Try(step)) {
          std::string words;
          for (const auto& part : step) {
            if (part.second.IsScalar())
              words += " " + part.first.Scalar() + " " + part.second.Scalar();
          }
          outcome.failures.push_back(fmt::format("{}:{}:{}: {}", name, line, words, *found));
        }
      } catch (const Malformed& error) {
        return malformed(line, error.what);
      }
    }
    outcome.steps = trial.tried();
    return outcome;
  } catch (const YAML::Exception& error) {
    return malformed(error.mark.line + 1, error.msg);
  }
}

}  // namespace pitcrew::simulation::sysfs
