// Which configurations a node's label may name: those of a ConfigMap, or those that its GPUs can
// have (mig-manager.md 9.2).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/mig/configuration.h"
#include "node/mig/node_gpus.h"
#include "node/mig_manager/options.h"

namespace pitcrew::node::mig_manager {

class ConfigSource {
 public:
  // All of them are borrowed.
  ConfigSource(const Options& options, std::shared_ptr<kube::Client> client, mig::NodeGpus& gpus)
      : options_(options), client_(std::move(client)), gpus_(gpus) {}

  // Read anew each time: a ConfigMap may have changed, and so may the GPUs that a generated one
  // describes (upstream generates once, at its start: weakness 19). A generated one is also written
  // to options.generated_config and to the ConfigMap <node>-mig-config; a failure of the latter is
  // only logged.
  // kNotFound or kInvalid for a file of the user's; LoadDefaultConfiguration's errors when the
  // driver names no profiles.
  base::Result<mig::Configuration> Load(const io::StopToken& stop);

 private:
  base::Result<mig::Configuration> Generate(const io::StopToken& stop);
  base::Status Publish(const std::string& text, const io::StopToken& stop);

  const Options& options_;
  const std::shared_ptr<kube::Client> client_;
  mig::NodeGpus& gpus_;
  std::string published_;  // the text that the ConfigMap has
};

// What is used where the driver names no profiles, as `generation` says. kUnavailable
// "NoConfiguration" without such a file, "DefaultConfigurationUnknown" when it cannot be looked
// for.
base::Result<mig::Configuration> LoadDefaultConfiguration(const std::filesystem::path& file,
                                                          const base::Error& generation);

// The object <node>-mig-config; `pod` is its owner, as the server gave it.
codec::Json NodeConfigMap(const Options& options, const codec::Json& pod, const std::string& text);

}  // namespace pitcrew::node::mig_manager
