#include "desired/operands/driver_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

using Objects = std::map<std::string, std::string>;

constexpr const char* kModules = "modules";
constexpr const char* kFiles = "files";

bool HaveSameNames(const Objects& a, const Objects& b) {
  return std::ranges::equal(a, b, {}, &Objects::value_type::first, &Objects::value_type::first);
}

std::string DigestOf(std::string_view text) { return std::to_string(base::HashFnv1a32(text)); }

template <class Seen, class Digest>
void Add(Objects& objects, std::string_view kind, const std::string& name, const Seen& all,
         Digest digest) {
  if (name.empty()) return;
  const auto found = all.find(name);
  const bool known = found != all.end() && found->second.is_present();
  objects[fmt::format("{} {}", kind, name)] =
      known ? std::invoke(digest, *found->second.value()) : "";
}

void AddConfigMap(Objects& objects, const Facts& facts, const std::string& name) {
  Add(objects, "ConfigMap", name, facts.config_maps, &ConfigMapData::digest);
}

void AddSecret(Objects& objects, const Facts& facts, const std::string& name) {
  Add(objects, "Secret", name, facts.secrets, std::identity());
}

std::optional<DriverContent> StandingContent(const Object& all, const char* kind) {
  const Object* objects = codec::Find(all, {kind, "objects"});
  if (objects == nullptr || !objects->is_object()) return std::nullopt;
  DriverContent content;
  for (const auto& [name, digest] : objects->items()) {
    if (digest.is_string()) content.objects[name] = digest.get<std::string>();
  }
  content.change = codec::FindString(all, {kind, "change"});
  return content;
}

Object ToObject(const DriverContent& content) {
  Object object = {{"objects", content.objects}};
  if (!content.change.empty()) object["change"] = content.change;
  return object;
}

void ChangeDigests(Object& daemonset, const std::string& change) {
  constexpr std::string_view kDigest = "DRIVER_CONFIG_DIGEST";
  for (Object* container : AllContainers(daemonset)) {
    if (const auto digest = FindEnv(*container, kDigest)) {
      SetEnv(*container, kDigest, DigestOf(fmt::format("{} {}", *digest, change)));
    }
  }
}

}  // namespace

std::optional<DriverContent> NextContent(const std::optional<DriverContent>& standing,
                                         Objects objects) {
  if (objects.empty()) return std::nullopt;
  const bool same_names = standing && HaveSameNames(standing->objects, objects);
  for (auto& [name, digest] : objects) {
    if (!digest.empty()) continue;
    if (!same_names) return std::nullopt;
    digest = standing->objects.at(name);
  }
  if (!same_names) return DriverContent{.objects = std::move(objects)};
  if (objects == standing->objects) return standing;
  const std::string change =
      DigestOf(fmt::format("{} {}", standing->change, codec::ToJsonText(Object(objects))));
  return DriverContent{.objects = std::move(objects), .change = change};
}

void ApplyDriverContent(Object& daemonset, const std::string& name, const Context& context) {
  const api::Driver& driver = context.driver();
  Objects modules;
  AddConfigMap(modules, context.facts, driver.kernel_module_config);
  Objects files;
  AddConfigMap(files, context.facts, driver.virtual_topology_config);
  if (driver.licensing.secret_name.empty()) {
    AddConfigMap(files, context.facts, driver.licensing.config_map_name);
  }
  AddSecret(files, context.facts, driver.licensing.secret_name);
  // A policy's precompiled drivers do not get it (reference operand-manifests.md section 6.1).
  if (context.driver_spec != nullptr || !driver.use_precompiled) {
    AddSecret(files, context.facts, driver.secret_env);
  }

  const auto found = context.facts.driver_contents.find(name);
  const auto parsed = found == context.facts.driver_contents.end()
                          ? base::Result<Object>(Object::object())
                          : codec::ParseJson(found->second);
  const Object standing = parsed && parsed->is_object() ? *parsed : Object::object();
  Object all = Object::object();
  if (const auto next = NextContent(StandingContent(standing, kModules), std::move(modules))) {
    all[kModules] = ToObject(*next);
    if (!next->change.empty()) ChangeDigests(daemonset, next->change);
  }
  if (const auto next = NextContent(StandingContent(standing, kFiles), std::move(files))) {
    all[kFiles] = ToObject(*next);
    if (!next->change.empty()) SetPodAnnotation(daemonset, api::kDriverFiles, next->change);
  }
  if (!all.empty()) SetAnnotation(daemonset, api::kDriverContent, codec::ToJsonText(all));
}

}  // namespace pitcrew::desired
