// The two sources of node feature discovery's configuration: a file, and the value of -options.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::node::nfd {

// The worker's configuration, from its file and from its flag --options; each is a mapping.
struct ConfigTexts {
  codec::Json file;
  codec::Json options;
};
// `options` is YAML or JSON text and may be empty. A missing file is an empty configuration.
base::Result<ConfigTexts> ReadConfigTexts(const std::filesystem::path& file,
                                          const std::string& options);
// The options over the file: mappings merge, lists replace.
codec::Json MergedConfig(const ConfigTexts& texts);

}  // namespace pitcrew::node::nfd
