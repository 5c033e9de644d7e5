#include "prom/registry.h"

#include <fmt/format.h>

namespace pitcrew::prom {

// Shared with the tokens of collectors.
struct Registry::State {
  struct Entry {
    std::shared_ptr<void> family;
    std::function<void(Exposition&)> expose;
  };
  std::mutex mutex;
  std::map<std::string, Entry> families;
  std::map<std::uint64_t, Collector> collectors;
  std::uint64_t last_collector = 0;
};

void Counter::Add(double amount, const LabelValues& labels) {
  // Written so that a NaN counts nothing either.
  Alter(labels, [&](double& value) { value += amount > 0 ? amount : 0; });
}

void Counter::Expose(Exposition& exposition) const {
  Each([&](const Labels& labels, double value) {
    exposition.AddCounter(name(), help(), value, labels);
  });
}

void Gauge::Set(double value, const LabelValues& labels) {
  Alter(labels, [&](double& old) { old = value; });
}

void Gauge::Add(double amount, const LabelValues& labels) {
  Alter(labels, [&](double& value) { value += amount; });
}

void Gauge::Expose(Exposition& exposition) const {
  Each([&](const Labels& labels, double value) {
    exposition.AddGauge(name(), help(), value, labels);
  });
}

Registry::Registry() : state_(std::make_shared<State>()) {}
Registry::~Registry() = default;

template <class Kind>
base::Result<Kind*> Registry::Make(std::string name, std::string help,
                                   std::vector<std::string> label_names) {
  TRY(CheckMetricName(name));
  for (const auto& label : label_names) TRY(CheckLabelName(label));
  const std::lock_guard lock(state_->mutex);
  if (state_->families.contains(name)) {
    return base::Fail(base::Error{base::Code::kExists, "MetricExists",
                                  fmt::format("there is a metric {} already", name)});
  }
  auto family = std::make_shared<Kind>(name, std::move(help), std::move(label_names));
  Kind* const made = family.get();
  state_->families.emplace(std::move(name), State::Entry{std::move(family), [made](Exposition& to) {
                                                           made->Expose(to);
                                                         }});
  return made;
}

base::Result<Counter*> Registry::MakeCounter(std::string name, std::string help,
                                             std::vector<std::string> label_names) {
  return Make<Counter>(std::move(name), std::move(help), std::move(label_names));
}

base::Result<Gauge*> Registry::MakeGauge(std::string name, std::string help,
                                         std::vector<std::string> label_names) {
  return Make<Gauge>(std::move(name), std::move(help), std::move(label_names));
}

std::shared_ptr<void> Registry::Collect(Collector collector) {
  const std::lock_guard lock(state_->mutex);
  const std::uint64_t number = ++state_->last_collector;
  state_->collectors.emplace(number, std::move(collector));
  return {static_cast<void*>(state_.get()), [state = std::weak_ptr(state_), number](void*) {
            const auto alive = state.lock();
            if (!alive) return;
            const std::lock_guard removing(alive->mutex);
            alive->collectors.erase(number);
          }};
}

std::string Registry::Render() const {
  const std::lock_guard lock(state_->mutex);
  Exposition exposition;
  for (const auto& [name, entry] : state_->families) entry.expose(exposition);
  for (const auto& [number, collector] : state_->collectors) collector(exposition);
  return exposition.Text();
}

}  // namespace pitcrew::prom
