// The metrics of a program: families of counters and gauges with labels, and whatever is read
// only when somebody asks.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "prom/exposition.h"

namespace pitcrew::prom {

// Values of a family's labels, one for each of its names, in their order.
using LabelValues = std::vector<std::string>;

// What both kinds share. Thread-safe. A series exists from its first value on.
template <class Value>
class Family {
 public:
  Family(std::string name, std::string help, std::vector<std::string> label_names)
      : name_(std::move(name)), help_(std::move(help)), label_names_(std::move(label_names)) {}
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  // Takes away the series with these labels; nothing happens when there is none.
  void Remove(const LabelValues& labels) {
    const std::lock_guard lock(mutex_);
    series_.erase(labels);
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    series_.clear();
  }

 protected:
  template <class Change>
  void Alter(const LabelValues& labels, Change&& change) {
    const std::lock_guard lock(mutex_);
    change(series_[labels]);
  }
  template <class Visit>
  void Each(Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [values, value] : series_) {
      Labels labels;
      // A value that was not given is empty, which to Prometheus is no label.
      for (std::size_t i = 0; i < label_names_.size(); ++i) {
        labels.emplace_back(label_names_[i], i < values.size() ? values[i] : std::string_view());
      }
      visit(labels, value);
    }
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& help() const { return help_; }

 private:
  const std::string name_;
  const std::string help_;
  const std::vector<std::string> label_names_;
  mutable std::mutex mutex_;
  std::map<LabelValues, Value> series_;
};

class Counter final : public Family<double> {
 public:
  using Family::Family;
  // `amount` below 0 counts nothing: a counter never falls.
  void Add(double amount = 1, const LabelValues& labels = {});
  void Expose(Exposition& exposition) const;
};

class Gauge final : public Family<double> {
 public:
  using Family::Family;
  void Set(double value, const LabelValues& labels = {});
  void Add(double amount, const LabelValues& labels = {});
  void Expose(Exposition& exposition) const;
};

// Owns the families. Thread-safe; families live as long as it does.
class Registry {
 public:
  // Called on the thread that renders; must not call this object.
  using Collector = std::function<void(Exposition&)>;

  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // kInvalid for a name that Prometheus does not take, kExists "MetricExists" for a second family
  // of that name.
  base::Result<Counter*> MakeCounter(std::string name, std::string help,
                                     std::vector<std::string> label_names = {});
  base::Result<Gauge*> MakeGauge(std::string name, std::string help,
                                 std::vector<std::string> label_names = {});
  // `collector` adds to every rendering until what is returned goes, which may outlive this object.
  [[nodiscard]] std::shared_ptr<void> Collect(Collector collector);

  // What /metrics answers.
  [[nodiscard]] std::string Render() const;

 private:
  struct State;
  template <class Kind>
  base::Result<Kind*> Make(std::string name, std::string help,
                           std::vector<std::string> label_names);

  std::shared_ptr<State> state_;
};

}  // namespace pitcrew::prom
