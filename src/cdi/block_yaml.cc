#include "cdi/block_yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ascii.h"

namespace pitcrew::cdi {
namespace {

using base::IsDigit;
using base::IsLetter;

// What YAML 1.1 takes for something else than text: the words are never longer.
bool MayBeAWord(std::string_view text) {
  constexpr std::size_t kLongest = 5;
  if (text.size() > kLongest) return false;
  static constexpr std::array<std::string_view, 9> kWords = {"y",   "n",    "yes",   "no",  "on",
                                                             "off", "true", "false", "null"};
  return std::ranges::any_of(kWords, [&](std::string_view word) {
    return std::ranges::equal(text, word, [](char a, char b) { return (a | 0x20) == b; });
  });
}

// "580.95.05" is no number.
bool IsVersion(std::string_view text) {
  return !text.empty() && std::ranges::count(text, '.') == 2 && IsDigit(text.front()) &&
         IsDigit(text.back()) &&
         std::ranges::all_of(text, [](char c) { return c == '.' || IsDigit(c); });
}

// No number, no word, nothing that means something to YAML.
bool IsPlainText(std::string_view text) {
  const auto starts = [&](std::string_view prefix) {
    return text.starts_with(prefix) && text.size() > prefix.size();
  };
  const bool begins =
      starts("../") || text.starts_with('/') || (starts("--") && IsLetter(text[2])) ||
      (!text.empty() && IsLetter(text.front()) && !MayBeAWord(text)) || IsVersion(text);
  if (!begins || text.back() == ':') return false;
  return std::ranges::all_of(text, [](char c) {
    return IsLetter(c) || IsDigit(c) || std::string_view("/.-_=:+,@%").contains(c);
  });
}

// Reads line by line; whatever is not expected ends it for good.
class BlockReader {
 public:
  explicit BlockReader(std::string_view text) : rest_(text) {
    if (rest_.starts_with("---\n")) rest_.remove_prefix(4);
    NextLine();
  }

  std::optional<Spec> Read() {
    Spec spec;
    Members(0, [&](std::string_view name) {
      if (name == "cdiVersion") return Text(spec.version);
      if (name == "kind") return Text(spec.kind);
      if (name == "annotations") return ReadAnnotations(spec.annotations);
      if (name == "containerEdits") return ReadEdits(spec.edits);
      if (name != "devices") return GiveUp();
      Objects([&](int indent) { ReadDevice(indent, spec.devices.emplace_back()); });
    });
    if (failed_ || !at_end_ || spec.kind.empty()) return std::nullopt;
    return spec;
  }

 private:
  void GiveUp() { failed_ = true; }
  [[nodiscard]] bool going() const { return !failed_ && !at_end_; }

  void NextLine() {
    if (rest_.empty()) {
      at_end_ = true;
      return;
    }
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos) return GiveUp();
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    const auto begin = line_.find_first_not_of(' ');
    if (begin == std::string_view::npos) return GiveUp();
    indent_ = static_cast<int>(begin);
    line_.remove_prefix(begin);
  }

  // Calls `member(name)` for the members of a mapping, each of which takes its value. Each name
  // once.
  template <class Function>
  void Members(int indent, Function&& member) {
    std::array<std::string_view, 12> seen;
    std::size_t count = 0;
    while (going() && indent_ == indent && !line_.starts_with("- ")) {
      const auto colon = line_.find(':');
      if (colon == std::string_view::npos) return GiveUp();
      const auto name = line_.substr(0, colon);
      if (std::find(seen.begin(), seen.begin() + count, name) != seen.begin() + count ||
          count == seen.size()) {
        return GiveUp();
      }
      seen[count++] = name;
      value_ = line_.substr(colon + 1);
      parent_ = indent;
      if (!value_.empty()) {
        if (value_.front() != ' ' || value_.size() == 1) return GiveUp();
        value_.remove_prefix(1);
      }
      member(name);
    }
  }

  // The items of a list: `item()` for each, the dash taken away.
  template <class Function>
  void Items(Function&& item) {
    if (value_ == "[]") return NextLine();
    const int parent = parent_;
    if (!value_.empty()) return GiveUp();
    NextLine();
    if (!going() || indent_ < parent || !line_.starts_with("- ")) return GiveUp();
    const int indent = indent_;
    while (going() && indent_ == indent && line_.starts_with("- ")) {
      line_.remove_prefix(2);
      indent_ += 2;
      item();
    }
    // Members that follow a list stand less deep, or beside its dashes.
    if (going() && indent_ >= indent && !(indent_ == indent && indent == parent)) GiveUp();
  }

  template <class Function>
  void Objects(Function&& object) {
    Items([&] { object(indent_); });
  }

  bool Scalar(std::string_view written, std::string& to) {
    if (IsPlainText(written)) {
      to = written;
      return true;
    }
    if (written.size() < 2 || written.front() != '"' || written.back() != '"') return false;
    written = written.substr(1, written.size() - 2);
    if (!std::ranges::all_of(
            written, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; })) {
      return false;
    }
    to = written;
    return true;
  }
  void Text(std::string& to) { Scalar(value_, to) ? NextLine() : GiveUp(); }
  void Texts(std::vector<std::string>& to) {
    Items([&] { Scalar(line_, to.emplace_back()) ? NextLine() : GiveUp(); });
  }

  template <class T>
  bool Number(std::string_view written, T& to) {
    if (written.empty() || (written.front() == '0' && written.size() > 1)) return false;
    if (!std::ranges::all_of(written, IsDigit)) return false;
    const auto end = written.data() + written.size();
    // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): from_chars gets the end
    const auto read = std::from_chars(written.data(), end, to);
    return read.ec == std::errc() && read.ptr == end;
  }
  void Number(std::int64_t& to) { Number(value_, to) ? NextLine() : GiveUp(); }
  template <class T>
  void Number(std::optional<T>& to) {
    Number(value_, to.emplace()) ? NextLine() : GiveUp();
  }
  void Numbers(std::vector<std::uint32_t>& to) {
    Items([&] { Number(line_, to.emplace_back()) ? NextLine() : GiveUp(); });
  }

  // Deeper than the member that they belong to.
  int BeginObject() {
    const int parent = parent_;
    if (!value_.empty()) {
      GiveUp();
      return 0;
    }
    NextLine();
    if (!going() || indent_ <= parent) GiveUp();
    return indent_;
  }

  void ReadAnnotations(Annotations& to) {
    Members(BeginObject(), [&](std::string_view name) {
      if (!IsPlainText(name)) return GiveUp();
      Text(to[std::string(name)]);
    });
  }

  void ReadDevice(int indent, Device& device) {
    Members(indent, [&](std::string_view name) {
      if (name == "name") return Text(device.name);
      if (name == "annotations") return ReadAnnotations(device.annotations);
      if (name == "containerEdits") return ReadEdits(device.edits);
      GiveUp();
    });
  }

  void ReadEdits(ContainerEdits& edits) {
    if (value_ == "{}") return NextLine();
    Members(BeginObject(), [&](std::string_view name) {
      if (name == "env") return Texts(edits.env);
      if (name == "additionalGids") return Numbers(edits.additional_gids);
      if (name == "deviceNodes") {
        return Objects([&](int indent) { ReadNode(indent, edits.device_nodes.emplace_back()); });
      }
      if (name == "hooks") {
        return Objects([&](int indent) { ReadHook(indent, edits.hooks.emplace_back()); });
      }
      if (name == "mounts") {
        return Objects([&](int indent) { ReadMount(indent, edits.mounts.emplace_back()); });
      }
      GiveUp();
    });
  }

  void ReadNode(int indent, DeviceNode& node) {
    Members(indent, [&](std::string_view name) {
      if (name == "path") return Text(node.path);
      if (name == "hostPath") return Text(node.host_path);
      if (name == "type") return Text(node.type);
      if (name == "major") return Number(node.major);
      if (name == "minor") return Number(node.minor);
      if (name == "fileMode") return Number(node.file_mode);
      if (name == "permissions") return Text(node.permissions);
      if (name == "uid") return Number(node.uid);
      if (name == "gid") return Number(node.gid);
      GiveUp();
    });
  }

  void ReadHook(int indent, Hook& hook) {
    Members(indent, [&](std::string_view name) {
      if (name == "hookName") return Text(hook.hook_name);
      if (name == "path") return Text(hook.path);
      if (name == "args") return Texts(hook.args);
      if (name == "env") return Texts(hook.env);
      if (name == "timeout") return Number(hook.timeout);
      GiveUp();
    });
  }

  void ReadMount(int indent, Mount& mount) {
    Members(indent, [&](std::string_view name) {
      if (name == "hostPath") return Text(mount.host_path);
      if (name == "containerPath") return Text(mount.container_path);
      if (name == "options") return Texts(mount.options);
      if (name == "type") return Text(mount.type);
      GiveUp();
    });
  }

  std::string_view rest_;
  std::string_view line_;   // without its indentation
  std::string_view value_;  // behind the name of the member at hand
  int indent_ = 0;
  int parent_ = 0;  // the indentation of that member
  bool at_end_ = false;
  bool failed_ = false;
};

}  // namespace

std::optional<Spec> ReadBlockYaml(std::string_view text) { return BlockReader(text).Read(); }

}  // namespace pitcrew::cdi
