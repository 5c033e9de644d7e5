// The device list that all ListAndWatch streams of one server follow.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <set>

#include "device_plugin_v1beta1.grpc.pb.h"

namespace pitcrew::rpc {

class DeviceStream;

// Thread-safe. Streams share its ownership, so they may outlive the server's interest in them.
class DevicePublication : public std::enable_shared_from_this<DevicePublication> {
 public:
  using List = std::shared_ptr<const v1beta1::ListAndWatchResponse>;

  // Hands `list` to every open stream and to those that open later.
  void Publish(List list);
  // Ends every open stream; later ones end at once.
  void Close();
  // A stream that starts with the current list; it lives until gRPC has called its OnDone.
  DeviceStream* Open();

 private:
  friend class DeviceStream;
  void AdvanceAll();

  std::mutex mutex_;
  List current_;
  bool closed_ = false;
  std::set<std::shared_ptr<DeviceStream>> streams_;
};

// One open stream: at most one write is under way, and it always writes the newest list.
class DeviceStream : public grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>,
                     public std::enable_shared_from_this<DeviceStream> {
 public:
  explicit DeviceStream(std::shared_ptr<DevicePublication> publication)
      : publication_(std::move(publication)) {}

  // Writes or finishes when that is due and nothing is under way.
  void Advance();

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // All guarded by publication_->mutex_. gRPC may run a reaction inside StartWrite or Finish, so
  // these are called without the lock; `busy_` keeps everybody else away meanwhile.
  const std::shared_ptr<DevicePublication> publication_;
  DevicePublication::List sent_;
  bool busy_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

}  // namespace pitcrew::rpc
