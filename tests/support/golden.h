// Golden cases: folders with input.yaml and expected.yaml; adding a case needs no C++.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "codec/json.h"

namespace pitcrew::test_support {

struct GoldenCase {
  std::string name;  // the folder's
  std::filesystem::path folder;
  codec::Json input;
  codec::Json expected;
};

// Every case below `folder`, sorted by name. A case that cannot be read ends the test program with
// a message: a case that is skipped silently proves nothing.
std::vector<GoldenCase> ReadGoldenCases(const std::filesystem::path& folder);

}  // namespace pitcrew::test_support
