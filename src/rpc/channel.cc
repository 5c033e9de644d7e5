#include "rpc/channel.h"

#include <fmt/format.h>

namespace pitcrew::rpc {

std::shared_ptr<grpc::Channel> Dial(const std::filesystem::path& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(fmt::format("unix:{}", socket.string()),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace pitcrew::rpc
