#include "node/nfd/collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace pitcrew::node::nfd {
namespace {

constexpr std::string_view kLocal = "local";
constexpr std::string_view kCustom = "custom";

template <class Map>
void KeepPrefix(Map& map, std::string_view prefix) {
  std::erase_if(map, [&](const auto& entry) { return !entry.first.starts_with(prefix); });
}

// The name under which a label of `source` is published (5.3).
std::string PublishedName(std::string_view source, const std::string& name) {
  if (source == kLocal || source == kCustom || name.find('/') != std::string::npos) return name;
  return fmt::format("{}/{}-{}", kFeatureNamespace, source, name);
}

base::Status CheckLabel(const std::string& name, const std::string& value) {
  TRY(CheckQualifiedName(name));
  return CheckLabelValue(value);
}

}  // namespace

bool MatchesFeaturePattern(std::string_view feature, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](std::string_view pattern) {
    if (!pattern.ends_with('*')) return feature == pattern;
    return feature.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

Collector::Collector(WorkerConfig config, HostPaths paths, std::string node_name)
    : config_(std::move(config)), paths_(std::move(paths)), node_name_(std::move(node_name)) {}

void Collector::Restore(const codec::Json& spec) {
  const auto* stored = codec::Find(spec, {"features"});
  const auto features =
      stored == nullptr ? Features{} : FeaturesFromJson(*stored).value_or(Features{});
  const auto* labels = codec::Find(spec, {"labels"});
  for (const auto& source : config_.feature_sources) {
    if (source == kCustom) continue;  // made anew from the features of the others
    Discovery earlier{features, {}, {}};
    KeepPrefix(earlier.features.flags, source + ".");
    KeepPrefix(earlier.features.attributes, source + ".");
    KeepPrefix(earlier.features.instances, source + ".");
    if (source == kLocal) {
      if (const auto found = features.attributes.find("local.label");
          found != features.attributes.end()) {
        earlier.labels = found->second;
      }
    } else if (labels != nullptr && labels->is_object()) {
      const auto prefix = PublishedName(source, "");
      for (const auto& [name, value] : labels->items()) {
        if (name.starts_with(prefix) && value.is_string()) {
          earlier.labels[name.substr(prefix.size())] = value.get<std::string>();
        }
      }
    }
    found_[source] = std::move(earlier);
  }
}

base::Result<Discovery> Collector::Ask(const std::string& source, base::WallClock::time_point now) {
  if (source == "cpu") return DiscoverCpu(paths_);
  if (source == "kernel") return DiscoverKernel(paths_);
  if (source == "memory") return DiscoverMemory(paths_);
  if (source == "pci") return DiscoverPci(paths_, config_.pci);
  if (source == "system") return DiscoverSystem(paths_, node_name_);
  next_expiry_.reset();
  TRY_ASSIGN(auto local, DiscoverLocal(paths_, now));
  next_expiry_ = local.next_expiry;
  return std::move(local.discovery);
}

void Collector::Discover(const std::string& source, base::WallClock::time_point now) {
  if (!config_.feature_sources.contains(source) || source == kCustom) return;
  auto found = Ask(source, now);
  if (!found) {
    if (const auto known = troubles_.find(source);
        known == troubles_.end() || known->second != found.error()) {
      base::LogError("A feature source cannot be read; what it found before stays", found.error(),
                     {{"source", source}});
    }
    troubles_.insert_or_assign(source, std::move(found).error());
    return;
  }
  if (troubles_.erase(source) > 0) {
    base::LogInfo("A feature source can be read again", {{"source", source}});
  }
  for (const auto& left_out : found->left_out) Tell(source, left_out);
  found_[source] = *std::move(found);
}

void Collector::Tell(const std::string& source, const base::Error& left_out) {
  // Other producers' files may bring ever new texts: the memory of them stays small.
  constexpr std::size_t kMostRemembered = 1000;
  if (told_.size() >= kMostRemembered) told_.clear();
  if (!told_.insert(left_out.message).second) return;
  base::LogWarning("Something is left out", left_out, {{"source", source}});
}

void Collector::DiscoverAll(base::WallClock::time_point now) {
  for (const auto& source : AllSources()) Discover(source, now);
}

Features Collector::AllFeatures() const {
  Features all;
  for (const auto& [source, discovery] : found_) all.Merge(discovery.features);
  return all;
}

Labels Collector::AllLabels(const Features& features) {
  Labels all;
  for (const auto& source : config_.label_sources) {
    Labels labels;
    if (source == kCustom) {
      labels = DiscoverCustom(features).labels;
    } else if (const auto found = found_.find(source); found != found_.end()) {
      labels = found->second.labels;
    }
    for (const auto& [short_name, value] : labels) {
      const auto name = PublishedName(source, short_name);
      if (const auto good = CheckLabel(name, value); !good) {
        Tell(source, good.error());
        continue;
      }
      if (config_.label_white_list.Matches(BaseNameOf(name))) all[name] = value;
    }
  }
  return all;
}

codec::Json Collector::Spec() {
  auto features = AllFeatures();
  const auto labels = AllLabels(features);
  const auto hidden = [&](const auto& entry) {
    return MatchesFeaturePattern(entry.first, config_.no_publish_features);
  };
  std::erase_if(features.flags, hidden);
  std::erase_if(features.attributes, hidden);
  std::erase_if(features.instances, hidden);
  return {{"features", ToJson(features)}, {"labels", labels}};
}

}  // namespace pitcrew::node::nfd
