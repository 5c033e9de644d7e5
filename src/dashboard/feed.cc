#include "dashboard/feed.h"

#include <fmt/format.h>

#include <utility>

#include "base/strings.h"
#include "dashboard/secret.h"

namespace pitcrew::dashboard {

Feed::Feed(std::size_t kept_bytes) : kept_bytes_(kept_bytes), name_(RandomText(8)) {}

void Feed::Publish(Picture picture) {
  const std::scoped_lock lock(mutex_);
  if (version_ > 0) {
    std::string change = ChangeBetween(picture_, picture);
    if (change.empty()) return;
    bytes_ += change.size();
    changes_.push_back(std::make_shared<const std::string>(std::move(change)));
    while (bytes_ > kept_bytes_) {
      bytes_ -= changes_.front()->size();
      changes_.pop_front();
    }
  }
  picture_ = std::move(picture);
  whole_.reset();
  ++version_;
  changed_.notify_all();
}

void Feed::Close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool Feed::closed() const {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

// "name-version".
std::optional<std::uint64_t> Feed::VersionOf(std::string_view id) const {
  if (!id.starts_with(name_) || id.size() <= name_.size()) return std::nullopt;
  const auto version = base::ParseUnsigned(id.substr(name_.size() + 1));
  if (!version || *version == 0 || *version > version_) return std::nullopt;
  return *version;
}

std::shared_ptr<const std::string> Feed::WholeLocked() const {
  if (version_ == 0) return nullptr;
  auto whole = whole_.lock();
  if (whole == nullptr) {
    whole = std::make_shared<const std::string>(WholeOf(picture_));
    whole_ = whole;
  }
  return whole;
}

std::shared_ptr<const std::string> Feed::Whole() const {
  const std::scoped_lock lock(mutex_);
  return WholeLocked();
}

FeedMessage Feed::MessageAfter(std::optional<std::uint64_t> seen) const {
  if (seen && version_ - *seen <= changes_.size()) {
    return {.id = fmt::format("{}-{}", name_, *seen + 1),
            .whole = false,
            .json = changes_[changes_.size() - (version_ - *seen)]};
  }
  return {.id = fmt::format("{}-{}", name_, version_), .whole = true, .json = WholeLocked()};
}

std::optional<FeedMessage> Feed::Next(std::string_view seen,
                                      base::SteadyClock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  const auto has_more = [&] {
    return closed_ || (version_ > 0 && VersionOf(seen) != std::optional(version_));
  };
  if (!changed_.wait_until(lock, deadline, has_more) || closed_) return std::nullopt;
  return MessageAfter(VersionOf(seen));
}

}  // namespace pitcrew::dashboard
