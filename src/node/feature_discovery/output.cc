#include "node/feature_discovery/output.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/file.h"
#include "base/log.h"

namespace pitcrew::node::feature_discovery {
namespace {

class ToFile final : public Output {
 public:
  explicit ToFile(std::filesystem::path file) : file_(std::move(file)) {
    // So that it can be watched before the first line is in it; a failure shows in Publish.
    std::error_code ignored;
    if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), ignored);
  }

  base::Status Publish(const Labels& labels, const io::StopToken& /*stop*/) override {
    const auto text = ToLines(labels);
    if (file_.empty()) {
      fmt::print("{}", text);
      std::fflush(stdout);
      return {};
    }
    if (const auto present = base::ReadFile(file_); present && *present == text) return {};
    TRY(base::WriteFileAtomically(file_, text));
    base::LogInfo("wrote labels", {{"file", file_.string()}, {"labels", labels.size()}});
    return {};
  }

  void Withdraw() override {
    std::error_code problem;
    if (!file_.empty()) std::filesystem::remove(file_, problem);
    if (problem) {
      base::LogWarning("the file with the labels stays",
                       {{"file", file_.string()}, {"why", problem.message()}});
    }
  }

 private:
  const std::filesystem::path file_;
};

}  // namespace

std::unique_ptr<Output> FileOutput(std::filesystem::path file) {
  return std::make_unique<ToFile>(std::move(file));
}

std::string ToLines(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) text += fmt::format("{}={}\n", name, value);
  return text;
}

}  // namespace pitcrew::node::feature_discovery
