#include "host/tegra.h"

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

std::vector<std::string>* ListOf(std::string_view type, TegraLists& lists) {
  if (type == "dev") return &lists.devices;
  if (type == "dir") return &lists.folders;
  if (type == "lib") return &lists.libraries;
  if (type == "sym") return &lists.links;
  return nullptr;
}

}  // namespace

void AppendTegraLines(std::string_view text, TegraLists& lists) {
  for (const auto& line : base::Split(text, '\n')) {
    const auto comma = line.find(',');
    if (comma == std::string::npos) continue;
    auto* list = ListOf(base::Trim(std::string_view(line).substr(0, comma)), lists);
    const auto path = base::Trim(std::string_view(line).substr(comma + 1));
    if (list != nullptr && !path.empty()) list->emplace_back(path);
  }
}

ReadLists ReadTegraLists(const std::vector<std::filesystem::path>& files) {
  ReadLists read;
  for (const auto& file : files) {
    const auto text = base::ReadFile(file);
    if (!text) {
      read.errors.push_back(text.error());
      continue;
    }
    TegraLists of_file;
    AppendTegraLines(*text, of_file);
    if (of_file.empty()) {
      read.errors.push_back(
          base::NotFound("EmptyTegraList",
                         file.string() + " has no line of the form \"dev|dir|lib|sym, <path>\""));
    }
    AppendTegraLines(*text, read.lists);
  }
  return read;
}

}  // namespace pitcrew::host
