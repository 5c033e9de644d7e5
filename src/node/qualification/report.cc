#include "node/qualification/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::node::qualification {
namespace {

using codec::Json;

std::string Word(bool passed) { return passed ? "passed" : "failed"; }

Json CheckJson(const Check& check) {
  Json object = {
      {"name", check.name}, {"outcome", ToString(check.outcome)}, {"message", check.text}};
  if (check.value) object["value"] = *check.value;
  if (check.least) object["least"] = *check.least;
  if (!check.unit.empty()) object["unit"] = check.unit;
  return object;
}

Json GpuJson(const GpuReport& gpu) {
  Json checks = Json::array();
  for (const auto& check : gpu.checks) checks.push_back(CheckJson(check));
  Json object = {{"index", gpu.index},
                 {"uuid", gpu.uuid},
                 {"name", gpu.name},
                 {"pci", gpu.pci},
                 {"verdict", Word(gpu.passed())},
                 {"checks", std::move(checks)}};
  if (!gpu.model.empty()) object["model"] = gpu.model;
  return object;
}

}  // namespace

bool Report::passed() const {
  return !gpus.empty() && std::ranges::all_of(gpus, &GpuReport::passed);
}

std::string Report::Summary() const {
  std::vector<std::string> failures;
  for (const auto& gpu : gpus) {
    if (!gpu.passed()) {
      failures.push_back(fmt::format("GPU {}: {}", gpu.index, base::Join(gpu.Failures(), "; ")));
    }
  }
  if (failures.empty()) return fmt::format("{0} of {0} GPUs passed", gpus.size());
  return fmt::format("{} of {} GPUs failed: {}", failures.size(), gpus.size(),
                     base::Join(failures, "; "));
}

codec::Json ToJson(const Report& report) {
  Json gpus = Json::array();
  for (const auto& gpu : report.gpus) gpus.push_back(GpuJson(gpu));
  Json object = {{"verdict", Word(report.passed())},
                 {"time", base::FormatRfc3339(report.time)},
                 {"seconds", report.seconds},
                 {"driverVersion", report.driver_version},
                 {"gpus", std::move(gpus)}};
  if (!report.node.empty()) object["node"] = report.node;
  return object;
}

std::string ToText(const Report& report) {
  std::string text = fmt::format("{}{} in {:.0f} s, driver {}\n",
                                 report.node.empty() ? "" : fmt::format("Node {}: ", report.node),
                                 Word(report.passed()), report.seconds, report.driver_version);
  for (const auto& gpu : report.gpus) {
    text += fmt::format("\nGPU {}  {}  {}  {}: {}\n", gpu.index, gpu.name, gpu.pci, gpu.uuid,
                        Word(gpu.passed()));
    if (gpu.model.empty()) {
      text += "  the model is not in the table: judged by the rules for every GPU only\n";
    }
    for (const auto& check : gpu.checks) {
      text += fmt::format("  {:<15} {:<8} {}\n", check.name, ToString(check.outcome), check.text);
    }
  }
  return text;
}

api::Qualification ForNode(const Report& report) {
  api::Qualification told;
  told.state =
      report.passed() ? api::QualificationState::kPassed : api::QualificationState::kFailed;
  told.time = base::FormatRfc3339(report.time);
  told.driver_version = report.driver_version;
  told.message = report.Summary();
  for (const auto& gpu : report.gpus) {
    told.gpus.push_back({.index = gpu.index,
                         .uuid = gpu.uuid,
                         .name = gpu.name,
                         .passed = gpu.passed(),
                         .failures = gpu.Failures()});
  }
  return told;
}

}  // namespace pitcrew::node::qualification
