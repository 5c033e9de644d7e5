#include "support_tree.h"

#include <fstream>

namespace pitcrew::node::nfd {

void MakeTree(const codec::Json& description, const std::filesystem::path& root) {
  const auto prepare = [&](const std::string& inside) {
    const auto path = root / inside;
    std::filesystem::create_directories(path.parent_path());
    return path;
  };
  if (description.contains("files")) {
    for (const auto& [inside, content] : description["files"].items()) {
      std::ofstream(prepare(inside)) << content.get<std::string>();
    }
  }
  if (description.contains("links")) {
    for (const auto& [inside, target] : description["links"].items()) {
      std::filesystem::create_symlink(target.get<std::string>(), prepare(inside));
    }
  }
}

}  // namespace pitcrew::node::nfd
