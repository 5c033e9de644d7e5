#include "rpc/device_publication.h"

#include <utility>
#include <vector>

namespace pitcrew::rpc {

void DevicePublication::Publish(List list) {
  {
    const std::lock_guard lock(mutex_);
    current_ = std::move(list);
  }
  AdvanceAll();
}

void DevicePublication::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  AdvanceAll();
}

void DevicePublication::AdvanceAll() {
  std::vector<std::shared_ptr<DeviceStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams.assign(streams_.begin(), streams_.end());
  }
  for (const auto& stream : streams) stream->Advance();
}

DeviceStream* DevicePublication::Open() {
  auto stream = std::make_shared<DeviceStream>(shared_from_this());
  {
    const std::lock_guard lock(mutex_);
    streams_.insert(stream);
  }
  stream->Advance();
  return stream.get();
}

void DeviceStream::Advance() {
  bool finish = false;
  const v1beta1::ListAndWatchResponse* message = nullptr;
  {
    const std::lock_guard lock(publication_->mutex_);
    if (busy_ || finished_) return;
    if (broken_ || publication_->closed_) {
      finish = finished_ = true;
    } else if (sent_ != publication_->current_) {
      busy_ = true;
      sent_ = publication_->current_;
      message = sent_.get();
    }
  }
  // After Finish, gRPC may call OnDone at any time: nothing of this object is touched any more.
  if (finish) return Finish(grpc::Status::OK);
  if (message != nullptr) StartWrite(message);
}

void DeviceStream::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(publication_->mutex_);
    busy_ = false;
    if (!ok) broken_ = true;
  }
  Advance();
}

void DeviceStream::OnCancel() {
  {
    const std::lock_guard lock(publication_->mutex_);
    broken_ = true;
  }
  Advance();
}

void DeviceStream::OnDone() {
  // Declared in this order so that the lock is released before the last references go away.
  const auto publication = publication_;
  const auto self = shared_from_this();
  const std::lock_guard lock(publication->mutex_);
  publication->streams_.erase(self);
}

}  // namespace pitcrew::rpc
