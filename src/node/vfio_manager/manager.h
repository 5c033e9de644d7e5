// Carries out what vfio-manage was told, and tells log and node about it.
#pragma once

#include "base/result.h"
#include "io/stop.h"
#include "node/vfio/node.h"
#include "node/vfio_manager/options.h"

namespace pitcrew::node::vfio_manager {

vfio::Settings SettingsOf(const Options& options);

// A device that failed is named in the log and, with options.node_name, in an Event on the node;
// the others are handled all the same. kUnavailable "DevicesFailed" (or the one device's own error)
// behind that; success without any NVIDIA GPU. With options.follow it stays until the stop: what
// the kernel says to be plugged in is handled as the others were, and what fails is told and tried
// again (plugged_in.h). A device that somebody binds to another driver meanwhile is left alone.
base::Status Run(const Options& options, const vfio::Settings& settings, const io::StopToken& stop);

}  // namespace pitcrew::node::vfio_manager
