#include "base/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/strings.h"

namespace pitcrew::base {
namespace {

// The elements of every occurrence; `text` is split as one occurrence is.
std::vector<std::string> Elements(const std::vector<std::string>& texts) {
  std::vector<std::string> elements;
  for (const auto& text : texts) {
    for (const auto& piece : Split(text, ',')) elements.emplace_back(Trim(piece));
  }
  return elements;
}

// Go's strconv.ParseInt with base 0.
Result<std::int64_t> ParseAnyBase(std::string_view text) {
  const std::string copy(text);
  int base = 10;
  std::size_t prefix = 0;
  if (copy.starts_with("0x") || copy.starts_with("0X")) base = 16, prefix = 2;
  if (copy.starts_with("0b") || copy.starts_with("0B")) base = 2, prefix = 2;
  if (copy.starts_with("0o") || copy.starts_with("0O")) base = 8, prefix = 2;
  if (base == 10) return ParseInteger(text);
  char* end = nullptr;
  errno = 0;
  const auto value = std::strtoll(copy.c_str() + prefix, &end, base);
  if (errno != 0 || end == copy.c_str() + prefix || *end != '\0') {
    return Fail(Invalid("BadNumber", fmt::format("\"{}\" is not a whole number", text)));
  }
  return value;
}

}  // namespace

struct CommandLine::Implementation {
  // Gives the occurrences of a flag (or the one text of a variable) to its target.
  using Read = std::function<Status(const std::vector<std::string>&)>;
  struct Entry {
    CLI::Option* option;
    std::vector<std::string> names;
    std::vector<std::string> variables;
    bool empty_is_unset;
    Read read;
  };

  Implementation(std::string_view program, std::string_view description)
      : app(std::string(description), std::string(program)) {}

  void Add(const Flag& flag, bool is_switch, bool empty_is_unset, Read read) {
    // klog's verbosity takes -v away from --version.
    if (flag.names == "v") app.set_version_flag("--version", version);
    Entry entry{.option = nullptr,
                .names = SplitTrimmed(flag.names, ','),
                .variables = SplitTrimmed(flag.environment, ','),
                .empty_is_unset = empty_is_unset,
                .read = std::move(read)};
    std::string spelling;
    for (const auto& name : entry.names) {
      spelling +=
          fmt::format("{}{}{}", spelling.empty() ? "" : ",", name.size() == 1 ? "-" : "--", name);
    }
    // Constant, or CLI11 takes it for a variable that receives the value.
    const std::string help = entry.variables.empty()
                                 ? std::string(flag.help)
                                 : fmt::format("{} [${}]", flag.help, Join(entry.variables, ", $"));
    if (is_switch) {
      entry.option = app.add_flag(spelling, help);
    } else {
      entry.option = app.add_option(spelling, help);
      entry.option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
    entries.push_back(std::move(entry));
  }

  [[nodiscard]] bool Knows(std::string_view name) const {
    if (name == "help" || name == "version") return true;
    for (const auto& entry : entries) {
      for (const auto& known : entry.names) {
        if (known == name) return true;
      }
    }
    return false;
  }

  // "-w=false", which CLI11 takes for a value "=false", as the long flag or in two words.
  void AddLetter(const std::string& letter, const std::string& value,
                 std::vector<std::string>& words) const {
    for (const auto& entry : entries) {
      const bool is_name = std::ranges::find(entry.names, letter) != entry.names.end();
      if (!is_name || entry.names.front().size() == 1) continue;
      words.push_back(fmt::format("--{}={}", entry.names.front(), value));
      return;
    }
    words.push_back("-" + letter);
    words.push_back(value);
  }

  // Go's single-dash long flags get their second dash, and "--name=" an empty value of its own.
  [[nodiscard]] std::vector<std::string> Canonical(int argc, const char* const* argv) const {
    std::vector<std::string> words;
    for (int i = 1; i < argc; ++i) {
      std::string word = argv[i];
      const auto equals = word.find('=');
      const auto name = word.substr(0, equals);
      if (name.size() > 2 && name[0] == '-' && name[1] != '-' && Knows(name.substr(1))) {
        word = "-" + word;
      }
      if (name.size() == 2 && name[0] == '-' && name[1] != '-' && equals != std::string::npos) {
        AddLetter(name.substr(1), word.substr(equals + 1), words);
      } else if (word.starts_with("--") && equals == word.size() - 1) {
        words.push_back(name);
        words.emplace_back();
      } else {
        words.push_back(std::move(word));
      }
    }
    return words;
  }

  CLI::App app;
  std::vector<Entry> entries;
  std::string version;
};

CommandLine::CommandLine(std::string_view program, std::string_view description,
                         std::string_view version)
    : implementation_(std::make_unique<Implementation>(program, description)) {
  implementation_->version = version;
  implementation_->app.set_version_flag("-v,--version", implementation_->version);
}
CommandLine::~CommandLine() = default;

void CommandLine::Add(const Flag& flag, std::optional<std::string>* target) {
  implementation_->Add(flag, false, false, [target](const auto& texts) -> Status {
    *target = texts.back();
    return {};
  });
}

void CommandLine::Add(const Flag& flag, std::optional<bool>* target) {
  implementation_->Add(flag, true, false, [target](const auto& texts) -> Status {
    if (texts.back().empty()) {
      *target = false;
      return {};
    }
    TRY_ASSIGN(*target, ParseGoBool(texts.back()));
    return {};
  });
}

void CommandLine::Add(const Flag& flag, std::optional<std::vector<std::string>>* target) {
  implementation_->Add(flag, false, false, [target](const auto& texts) -> Status {
    *target = Elements(texts);
    return {};
  });
}

void CommandLine::AddEach(const Flag& flag, std::vector<std::string>* target) {
  implementation_->Add(flag, false, false, [target](const auto& texts) -> Status {
    *target = texts;
    return {};
  });
}

void CommandLine::Add(const Flag& flag, std::optional<std::int64_t>* target) {
  implementation_->Add(flag, false, true, [target](const auto& texts) -> Status {
    TRY_ASSIGN(*target, ParseAnyBase(texts.back()));
    return {};
  });
}

void CommandLine::Add(const Flag& flag, std::optional<std::vector<std::int64_t>>* target) {
  implementation_->Add(flag, false, true, [target](const auto& texts) -> Status {
    std::vector<std::int64_t> numbers;
    for (const auto& element : Elements(texts)) {
      TRY_ASSIGN(const auto number, ParseAnyBase(element));
      numbers.push_back(number);
    }
    *target = std::move(numbers);
    return {};
  });
}

void CommandLine::Add(const Flag& flag, std::optional<double>* target) {
  implementation_->Add(flag, false, true, [target](const auto& texts) -> Status {
    TRY_ASSIGN(*target, ParseDouble(texts.back()));
    return {};
  });
}

void CommandLine::AddWords(std::string_view name, std::string_view help,
                           std::vector<std::string>* target) {
  implementation_->app.add_option(std::string(name), *target, std::string(help));
}

Result<bool> CommandLine::Parse(int argc, const char* const* argv, const Environment& environment) {
  auto& app = implementation_->app;
  try {
    auto words = implementation_->Canonical(argc, argv);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    // Help and version are thrown too.
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return false;
    }
    return Fail(Invalid("BadUsage", fmt::format("{}; --help lists the flags", error.what())));
  }
  for (const auto& entry : implementation_->entries) {
    std::string from = "--" + entry.names.front();
    std::vector<std::string> texts = entry.option->results();
    if (texts.empty()) {
      for (const auto& variable : entry.variables) {
        const auto value = environment(variable);
        if (!value) continue;
        if (value->empty() && entry.empty_is_unset) break;
        from = variable;
        texts = {*value};
        break;
      }
    }
    if (texts.empty()) continue;
    if (const auto read = entry.read(texts); !read) {
      return Fail(Invalid("BadUsage", fmt::format("{}: {}", from, read.error().message)));
    }
  }
  return true;
}

CommandLine::Environment CommandLine::Process() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

}  // namespace pitcrew::base
