// Rules of admission by which an API server refuses what the operator writes.
#pragma once

#include <string>

#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {

// A ValidatingAdmissionPolicy with its binding; both go with this object. What it refuses is
// refused a moment after its making.
class AdmissionRule {
 public:
  // Objects of that resource for which `expression` (CEL) is false cannot be created or changed.
  AdmissionRule(std::shared_ptr<kube::Client> client, std::string name, const std::string& group,
                const std::string& resource, const std::string& expression)
      : client_(std::move(client)), name_(std::move(name)) {
    const Json metadata = {{"name", name_}};
    const Json rules = Json::array({{{"apiGroups", {group}},
                                     {"apiVersions", {"v1"}},
                                     {"operations", {"CREATE", "UPDATE"}},
                                     {"resources", {resource}}}});
    EXPECT_TRUE(client_->Create(kPolicies,
                                {{"metadata", metadata},
                                 {"spec",
                                  {{"failurePolicy", "Fail"},
                                   {"matchConstraints", {{"resourceRules", rules}}},
                                   {"validations", {{{"expression", expression}}}}}}},
                                kAdmin));
    EXPECT_TRUE(
        client_->Create(kBindings,
                        {{"metadata", metadata},
                         {"spec", {{"policyName", name_}, {"validationActions", {"Deny"}}}}},
                        kAdmin));
  }
  ~AdmissionRule() {
    EXPECT_TRUE(client_->Delete(kBindings, {.namespace_name = "", .name = name_}));
    EXPECT_TRUE(client_->Delete(kPolicies, {.namespace_name = "", .name = name_}));
  }
  AdmissionRule(const AdmissionRule&) = delete;
  AdmissionRule& operator=(const AdmissionRule&) = delete;

 private:
  static constexpr kube::ResourceKind kPolicies{"admissionregistration.k8s.io", "v1",
                                                "validatingadmissionpolicies",
                                                "ValidatingAdmissionPolicy", false};
  static constexpr kube::ResourceKind kBindings{"admissionregistration.k8s.io", "v1",
                                                "validatingadmissionpolicybindings",
                                                "ValidatingAdmissionPolicyBinding", false};
  std::shared_ptr<kube::Client> client_;
  std::string name_;
};

}  // namespace pitcrew::gpu_operator::testing
