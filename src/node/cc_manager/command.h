// Entry point of k8s-cc-manager.
#pragma once

namespace pitcrew::node::cc_manager {

int Command(int argc, char** argv);

}  // namespace pitcrew::node::cc_manager
