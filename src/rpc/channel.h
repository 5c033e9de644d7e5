// Client channels to the unix sockets of a node.
#pragma once

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <memory>

namespace pitcrew::rpc {

// A server that is being started listens an instant after its socket appears: the channel tries
// again quickly, and does not inherit the back-off of an earlier one.
std::shared_ptr<grpc::Channel> Dial(const std::filesystem::path& socket);

}  // namespace pitcrew::rpc
