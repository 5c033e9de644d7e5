#include "node/nfd/views.h"

#include "kube/projection.h"
#include "node/nfd/resources.h"

namespace pitcrew::node::nfd {
namespace {

namespace ondemand = simdjson::ondemand;

// Calls take(name, value) for the text members of an optional object; its absence is fine.
template <class Take>
simdjson::error_code ForEachText(simdjson::simdjson_result<ondemand::value> found, Take take) {
  ondemand::object texts;
  const auto missing = found.get_object().get(texts);
  if (missing == simdjson::NO_SUCH_FIELD || missing == simdjson::INCORRECT_TYPE) {
    return simdjson::SUCCESS;
  }
  if (missing) return missing;
  for (auto member : texts) {
    std::string_view name;
    std::string_view value;
    if (const auto error = member.unescaped_key().get(name)) return error;
    if (const auto error = member.value().get_string().get(value)) return error;
    take(name, value);
  }
  return simdjson::SUCCESS;
}

// FNV-1a, 64 bit, over name and value with a separator that neither can contain.
void Mix(std::uint64_t& hash, std::string_view name, std::string_view value) {
  constexpr std::uint64_t kPrime = 1099511628211ULL;
  std::uint64_t one = 14695981039346656037ULL;
  const auto feed = [&](std::string_view bytes) {
    for (const char c : bytes) one = (one ^ static_cast<unsigned char>(c)) * kPrime;
    one = (one ^ 0xff) * kPrime;
  };
  feed(name);
  feed(value);
  hash += one;  // members may come in any order
}

}  // namespace

kube::Projection<NodeFeatureView> NodeFeatureProjection() {
  return kube::ProjectOnDemand<NodeFeatureView>([](ondemand::object& object,
                                                   NodeFeatureView& view) -> simdjson::error_code {
    auto error = ForEachText(object["metadata"]["labels"], [&](std::string_view key, auto value) {
      if (key == kNodeNameLabel) view.node_name = value;
    });
    if (error) return error;
    return ForEachText(object["spec"]["labels"], [&](std::string_view key, auto value) {
      view.labels[std::string(key)] = value;
    });
  });
}

kube::Projection<NodeView> NodeProjection() {
  return kube::ProjectOnDemand<NodeView>(
      [](ondemand::object& object, NodeView& view) -> simdjson::error_code {
        ondemand::object metadata;
        if (const auto error = object["metadata"].get_object().get(metadata)) return error;
        std::string_view uid;
        if (const auto error = metadata["uid"].get_string().get(uid)) return error;
        view.uid = uid;
        const auto mix = [&](std::string_view name, std::string_view value) {
          Mix(view.fingerprint, name, value);
        };
        if (const auto error = ForEachText(metadata["labels"], mix)) return error;
        return ForEachText(metadata["annotations"], [&](std::string_view name, auto value) {
          // Of the annotations only the bookkeeping counts; others change all the time.
          if (name.find("nfd.node.kubernetes.io/") != std::string_view::npos) mix(name, value);
        });
      });
}

kube::InformerOptions InPages(int page_size) {
  kube::InformerOptions options;
  options.page_size = page_size;
  return options;
}

}  // namespace pitcrew::node::nfd
