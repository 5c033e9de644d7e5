// What a policy puts into the driver pod: repositories, certificates, module parameters, licences,
// subscriptions, environment, its patience (reference operand-manifests.md section 6.1).
#pragma once

#include <string_view>

#include "desired/operand.h"

namespace pitcrew::desired {

// Every key of the ConfigMap that `field` names, mounted below `folder`; the volume carries the
// ConfigMap's name. Errors name the field: the ConfigMap is missing, or could not be read.
base::Status MountConfigMapKeys(Object& daemonset, Object& container, const Context& context,
                                std::string_view field, const std::string& config_map,
                                const std::string& folder);

// Folder for package repositories and for certificates in a driver container of that system.
base::Result<std::string> RepositoryFolder(std::string_view os_id);
base::Result<std::string> CertificateFolder(std::string_view os_id);

// The Secret of the driver's secretEnv, whose keys become the container's environment. Errors name
// the field: there is no such Secret, or it could not be read.
base::Status ApplySecretEnv(Object& container, const Context& context);
// Whether the driver's secretEnv, if it names one, is there: kInvalid "SecretMissing", kUnavailable
// "SecretUnknown".
base::Status CheckSecretEnv(const api::Driver& driver, const Facts& facts,
                            std::string_view operator_namespace);
// The members of `probe` that are given, in the driver container's startup probe.
void OverrideStartupProbe(Object& container, const api::Probe& probe);

void MountLicence(Object& daemonset, Object& container, const api::LicensingConfig& licensing);
void MountVirtualTopology(Object& daemonset, Object& container, const std::string& config_map);
// The host's entitlements for rhel and suse systems, where they are wanted.
void MountSubscriptions(Object& daemonset, Object& container, const Context& context,
                        std::string_view os_id);
// OpenShift's cluster-wide proxy; may add the ConfigMap of its certificate authority to `objects`.
void ApplyProxy(Object& daemonset, std::vector<Object>& objects, const Context& context);

}  // namespace pitcrew::desired
