// containerd of a Kubernetes distribution: its root file belongs to the distribution, so runtimes
// are added where that one takes them from (runtimes-and-distributions.md 5.3 to 5.6).
#pragma once

#include "node/toolkit/engine.h"

namespace pitcrew::node::toolkit {

base::Result<std::vector<FileContent>> PlanDistributionSetup(const EngineOptions& options,
                                                             const std::vector<Runtime>& runtimes,
                                                             const codec::Json& source,
                                                             const EngineFiles& files);
base::Result<std::vector<FileContent>> PlanDistributionCleanup(const EngineOptions& options,
                                                               const EngineFiles& files);

// Whether a distribution that finds our programs by itself has not looked since they are there.
base::Result<bool> HasToLook(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                             const EngineFiles& files);

// A template with `tables` at its end, between two lines that mark them as ours, in the place of
// what was between such lines before. kInvalid "TemplateBroken" when one of the two is missing.
base::Result<std::string> PutIntoTemplate(const std::optional<std::string>& text,
                                          const std::string& tables);
// The template without them; nullopt when nothing is left that was there before us.
base::Result<std::optional<std::string>> TakeFromTemplate(const std::string& text);

}  // namespace pitcrew::node::toolkit
