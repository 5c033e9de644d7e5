// A node's file tree from a description: {files: {path: content}, links: {path: target}}.
#pragma once

#include <filesystem>

#include "codec/json.h"

namespace pitcrew::node::nfd {

void MakeTree(const codec::Json& description, const std::filesystem::path& root);

}  // namespace pitcrew::node::nfd
