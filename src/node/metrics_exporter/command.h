// dcgm-exporter: metrics of this node's GPUs.
#pragma once

namespace pitcrew::node::metrics_exporter {

int Command(int argc, char** argv);

}  // namespace pitcrew::node::metrics_exporter
