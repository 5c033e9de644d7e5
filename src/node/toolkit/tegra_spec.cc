#include "node/toolkit/tegra_spec.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "cdi/driver_annotations.h"
#include "host/tegra.h"

namespace pitcrew::node::toolkit {
namespace {

constexpr std::size_t kMostMissing = 10;  // names in one line of the log

void TellMissing(std::vector<std::string> missing) {
  if (missing.empty()) return;
  const auto entries = missing.size();
  missing.resize(std::min(entries, kMostMissing));
  base::LogInfo("Some of what the lists name is not on this system",
                {{"entries", entries}, {"first", base::Join(missing, ", ")}});
}

}  // namespace

base::Result<cdi::Spec> GenerateTegraSpec(const gpu::Inventory* inventory,
                                          const TegraRequest& request,
                                          const cdi_generate::Options& options) {
  const auto read = host::ReadTegraLists(request.lists);
  for (const auto& error : read.errors) base::LogWarning("A list of files is passed over", error);
  TRY_ASSIGN(const auto tegra,
             cdi_generate::LocateTegra(request.locate, read.lists, request.ignored_links));
  TellMissing(tegra.missing);
  cdi_generate::DriverFiles files;
  TRY(cdi_generate::LocateDevices(request.locate, files));
  TRY_ASSIGN(auto generated,
             cdi_generate::GenerateTegra(inventory, tegra, files, options, request.tegra));
  if (generated.undivided) {
    base::LogWarning("The GPUs of this system are offered as one device", *generated.undivided);
  }
  if (options.kind == cdi::kRuntimeKind && !request.lists_folder.empty()) {
    generated.spec.annotations[std::string(cdi::kListsFolder)] = request.lists_folder;
  }
  return std::move(generated.spec);
}

std::vector<std::filesystem::path> TegraListsBelow(const host::Root& root) {
  std::vector<std::filesystem::path> lists;
  for (const auto list : host::kTegraLists) lists.push_back(root.At(list));
  return lists;
}

}  // namespace pitcrew::node::toolkit
