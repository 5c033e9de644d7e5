#include "doctor/command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "codec/yaml.h"
#include "doctor/changes.h"
#include "doctor/follow.h"
#include "doctor/options.h"
#include "doctor/report_json.h"
#include "doctor/source.h"
#include "doctor/text.h"
#include "snapshot/connection.h"

namespace pitcrew::doctor {
namespace {

constexpr int kReady = 0;
constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kNotReady = 3;

// Rounds of reading what a look has asked for.
constexpr int kLooks = 3;

TextOptions TextOptionsFor(const Options& options) {
  TextOptions text;
  text.wide = options.format == Format::kWide;
  text.all = options.all;
  if (::isatty(STDOUT_FILENO) == 0) return text;
  text.colours = std::getenv("NO_COLOR") == nullptr;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) text.width = size.ws_col;
  return text;
}

// "ns/pod" is a pod; a name is a node's if there is one, else a pod's of `default_namespace`.
fleet::Question QuestionOf(const Options& options, const fleet::Cluster& cluster,
                           const std::string& default_namespace) {
  fleet::Question question;
  for (const std::string& word : options.wanted) {
    const std::size_t slash = word.find('/');
    if (slash != std::string::npos) {
      question.pods.push_back({word.substr(0, slash), word.substr(slash + 1)});
    } else if (cluster.nodes.contains(word)) {
      question.nodes.push_back(word);
    } else {
      question.pods.push_back({default_namespace, word});
    }
  }
  return question;
}

// What is no node that there is has been taken for a pod.
base::Status CheckAsked(const fleet::Question& question, const fleet::Cluster& cluster) {
  for (const fleet::Key& pod : question.pods) {
    if (cluster.pods.contains(pod)) continue;
    return base::Fail(base::NotFound(
        "PodNotFound", fmt::format("there is no node {} and no pod {}", pod.name, pod.ToString())));
  }
  return {};
}

int ExitOf(const fleet::Report& report) {
  if (report.is_broken()) return kNotReady;
  return report.judged ? kReady : kFailure;
}

int Print(const fleet::Report& report, const Options& options, Command command) {
  std::string text;
  switch (options.format) {
    case Format::kJson:
      text = codec::ToPrettyJsonText(ToJson(report)) + "\n";
      break;
    case Format::kYaml:
      text = codec::ToYamlText(ToJson(report));
      break;
    case Format::kTable:
    case Format::kWide:
      text = command == Command::kStatus
                 ? StatusText(report, TextOptionsFor(options))
                 : DoctorText(report, TextOptionsFor(options), !options.wanted.empty());
  }
  std::fputs(text.c_str(), stdout);
  if (command == Command::kDoctor && !report.pods.empty()) return kNotReady;
  return ExitOf(report);
}

base::Result<int> RunOnFile(const Options& options, Command command) {
  TRY_ASSIGN(const fleet::Cluster cluster, FromFile(options.file, options.name_space));
  const fleet::Question question = QuestionOf(options, cluster, "default");
  TRY(CheckAsked(question, cluster));
  return Print(fleet::MakeReport(cluster, question), options, command);
}

// Redraws a terminal; elsewhere appends one line per change.
base::Result<int> RunWatch(const std::shared_ptr<kube::Client>& client, const fleet::Cluster& first,
                           const Options& options, const io::StopToken& stop) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  std::optional<Facts> told;
  int result = kReady;
  const auto show = [&](const fleet::Cluster& cluster) {
    const fleet::Report report = fleet::MakeReport(cluster);
    result = ExitOf(report);
    Facts facts = FactsOf(report);
    if (terminal) {
      // Home, the text, and nothing of the old one behind it.
      fmt::print("\x1b[H\x1b[2J{}", StatusText(report, TextOptionsFor(options)));
    } else if (!told) {
      fmt::print("{}\n", StatusText(report, TextOptionsFor(options)));
    } else {
      const std::string time = base::FormatRfc3339(cluster.now);
      for (const std::string& line : Changes(*told, facts)) fmt::print("{} {}\n", time, line);
    }
    std::fflush(stdout);
    told = std::move(facts);
  };
  const base::Status followed = Follow(client, first, show, stop);
  if (!followed && followed.error().code != base::Code::kCancelled) {
    return base::Fail(followed.error());
  }
  return result;
}

base::Result<int> RunLive(const Options& options, Command command, const io::StopToken& stop) {
  TRY_ASSIGN(const std::shared_ptr<kube::Client> client, snapshot::Connect(options.connection));
  const std::string name_space = FindNamespace(*client, options.name_space, stop);
  const std::string& own = client->config().default_namespace;
  if (options.watch) {
    TRY_ASSIGN(const fleet::Cluster first, ReadLive(*client, name_space, stop, Extent::kFirst));
    return RunWatch(client, first, options, stop);
  }
  TRY_ASSIGN(fleet::Cluster cluster, ReadLive(*client, name_space, stop));
  const fleet::Question question = QuestionOf(options, cluster, own);
  TRY(ReadPodsAsked(*client, question, cluster, stop));
  TRY(CheckAsked(question, cluster));
  fleet::Report report = fleet::MakeReport(cluster, question);
  // Logs and features that a look asks for may lead to a further one.
  for (int look = 0; look < kLooks && command == Command::kDoctor; ++look) {
    if (report.wanted.logs.empty() && report.wanted.features.empty()) break;
    TRY(ReadWanted(*client, report.wanted, cluster, stop));
    report = fleet::MakeReport(cluster, question);
  }
  return Print(report, options, command);
}

int Run(Command command, int argc, char** argv) {
  const char* name = command == Command::kStatus ? "status" : "doctor";
  const auto options = ReadOptions(command, argc, argv);
  if (!options) {
    fmt::print(stderr, "pitcrew {}: {}\n", name, options.error().message);
    return kUsage;
  }
  if (!*options) return kReady;
  base::Result<int> result = kFailure;
  if ((*options)->file.empty()) {
    io::StopSource source;
    const base::Status ready = source.StopOnSignals({SIGTERM, SIGINT});
    result = ready ? RunLive(**options, command, source.token()) : base::Fail(ready.error());
  } else {
    result = RunOnFile(**options, command);
  }
  if (result) return *result;
  fmt::print(stderr, "pitcrew {}: {}\n", name, result.error().message);
  return kFailure;
}

}  // namespace

int StatusCommand(int argc, char** argv) { return Run(Command::kStatus, argc, argv); }

int DoctorCommand(int argc, char** argv) { return Run(Command::kDoctor, argc, argv); }

}  // namespace pitcrew::doctor
