// A Node of a real API server, for tests of components that follow a label and tell a state.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "kube/client.h"
#include "kube/informer.h"

namespace pitcrew::testing {

class TestNode {
 public:
  // Makes the Node with a namespace of its own, and follows its label `state`.
  TestNode(std::shared_ptr<kube::Client> client, std::string state);
  ~TestNode();
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& namespace_name() const { return namespace_; }

  // nullopt takes the label away.
  void Label(std::string_view label, const std::optional<std::string>& value);
  [[nodiscard]] std::string LabelOf(std::string_view label);
  [[nodiscard]] std::string AnnotationOf(std::string_view annotation);
  // A pod on it, with the label "app".
  void MakePod(const std::string& name, const std::string& app);
  void DeletePod(const std::string& name);

  // Waits for the states since the last call to end like this, and returns them all.
  std::vector<std::string> StatesUntil(const std::string& last);
  // Waits until the Node is like this; false when it takes minutes.
  bool WaitUntil(const std::function<bool(const codec::Json& node)>& holds);
  [[nodiscard]] std::vector<std::string> EventReasons();

 private:
  const std::shared_ptr<kube::Client> client_;
  const std::string state_;
  std::string name_;
  std::string namespace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  codec::Json now_;
  std::vector<std::string> seen_;
  std::string last_;
  std::unique_ptr<kube::Informer<codec::Json>> informer_;  // last: it uses the others
};

}  // namespace pitcrew::testing
