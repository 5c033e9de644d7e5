{{/*
The spec of the ClusterPolicy, as a dictionary that each block below adds its part to
(clusterpolicy-api.md section 7: which value goes where, and when it is rendered).
*/}}

{{/*
One operand: `enabled` and the keys of .given whenever they have a value, the image and the other
common keys and those of .keys when they are not empty.
Arguments: root, spec, name; given and keys (lists), defaultVersion.
*/}}
{{- define "gpu-operator.operand" -}}
{{- $from := index .root.Values .name -}}
{{- $into := dict -}}
{{- include "gpu-operator.copyGiven" (dict "from" $from "into" $into "keys" (concat (list "enabled") (default list .given))) -}}
{{- include "gpu-operator.imageParts" (dict "root" .root "path" .name "from" $from "into" $into "defaultVersion" .defaultVersion) -}}
{{- include "gpu-operator.copy" (dict "from" $from "into" $into "keys" (concat (list "imagePullPolicy" "imagePullSecrets" "resources" "env" "args" "hostNetwork") (default list .keys))) -}}
{{- $_ := set .spec .name $into -}}
{{- end -}}

{{/* A driver manager block. Arguments: root, path, from, into (the block's parent), name. */}}
{{- define "gpu-operator.driverManager" -}}
{{- if .from -}}
{{- $block := dict -}}
{{- include "gpu-operator.imageParts" (dict "root" .root "path" .path "from" .from "into" $block) -}}
{{- include "gpu-operator.copy" (dict "from" .from "into" $block "keys" (list "imagePullPolicy" "imagePullSecrets" "env")) -}}
{{- $_ := set .into .name $block -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator.clusterSettings" -}}
{{- $values := .root.Values -}}
{{- $spec := .spec -}}

{{- $hostPaths := dict -}}
{{- include "gpu-operator.copyGiven" (dict "from" $values.hostPaths "into" $hostPaths "keys" (list "rootFS" "driverInstallDir")) -}}
{{- include "gpu-operator.copy" (dict "from" $values.hostPaths "into" $hostPaths "keys" (list "kubeletRootDir")) -}}
{{- $_ := set $spec "hostPaths" $hostPaths -}}

{{- $operator := dict -}}
{{- include "gpu-operator.copy" (dict "from" $values.operator "into" $operator "keys" (list "runtimeClass")) -}}
{{- if eq (toString $values.operator.use_ocp_driver_toolkit) "never" -}}
{{- $_ := set $operator "use_ocp_driver_toolkit" false -}}
{{- else if $values.operator.use_ocp_driver_toolkit -}}
{{- $_ := set $operator "use_ocp_driver_toolkit" true -}}
{{- end -}}
{{- if (default dict $values.operator.metrics).serviceMonitor -}}
{{- $_ := set $operator "metrics" (dict "serviceMonitor" $values.operator.metrics.serviceMonitor) -}}
{{- end -}}
{{- $_ := set $spec "operator" $operator -}}

{{- $labels := dict "helm.sh/chart" (include "gpu-operator.chart" .root) "app.kubernetes.io/managed-by" .root.Chart.Name -}}
{{- $daemonsets := dict "labels" (merge (dict) (default dict $values.daemonsets.labels) $labels) -}}
{{- include "gpu-operator.copy" (dict "from" $values.daemonsets "into" $daemonsets "keys" (list "annotations" "tolerations" "priorityClassName" "updateStrategy")) -}}
{{- with $values.daemonsets.rollingUpdate -}}
{{- $_ := set $daemonsets "rollingUpdate" (dict "maxUnavailable" (toString .maxUnavailable)) -}}
{{- end -}}
{{- $_ := set $spec "daemonsets" $daemonsets -}}

{{- $_ := set $spec "psa" (dict "enabled" $values.psa.enabled) -}}
{{- $cdi := dict "enabled" $values.cdi.enabled -}}
{{- if $values.cdi.enabled -}}
{{- include "gpu-operator.copy" (dict "from" $values.cdi "into" $cdi "keys" (list "nriPluginEnabled")) -}}
{{- end -}}
{{- $_ := set $spec "cdi" $cdi -}}
{{- $mig := dict -}}
{{- include "gpu-operator.copy" (dict "from" (default dict $values.mig) "into" $mig "keys" (list "strategy")) -}}
{{- with $mig }}{{ $_ := set $spec "mig" . }}{{ end -}}

{{- $sandbox := dict "enabled" $values.sandboxWorkloads.enabled -}}
{{- include "gpu-operator.copy" (dict "from" $values.sandboxWorkloads "into" $sandbox "keys" (list "defaultWorkload" "mode")) -}}
{{- $_ := set $spec "sandboxWorkloads" $sandbox -}}
{{- end -}}

{{- define "gpu-operator.upgradePolicy" -}}
{{- $from := .from -}}
{{- $policy := dict "autoUpgrade" (default false $from.autoUpgrade) "maxParallelUpgrades" (default 0 $from.maxParallelUpgrades) "maxUnavailable" (default "25%" $from.maxUnavailable) -}}
{{- with $from.waitForCompletion -}}
{{- $wait := dict -}}
{{- include "gpu-operator.copyGiven" (dict "from" . "into" $wait "keys" (list "timeoutSeconds")) -}}
{{- include "gpu-operator.copy" (dict "from" . "into" $wait "keys" (list "podSelector")) -}}
{{- $_ := set $policy "waitForCompletion" $wait -}}
{{- end -}}
{{- with $from.gpuPodDeletion -}}
{{- $deletion := dict "force" (default false .force) "deleteEmptyDir" (default false .deleteEmptyDir) -}}
{{- include "gpu-operator.copyGiven" (dict "from" . "into" $deletion "keys" (list "timeoutSeconds")) -}}
{{- $_ := set $policy "podDeletion" $deletion -}}
{{- end -}}
{{- with $from.drain -}}
{{- $drain := dict "enable" (default false .enable) "force" (default false .force) "deleteEmptyDir" (default false .deleteEmptyDir) -}}
{{- include "gpu-operator.copyGiven" (dict "from" . "into" $drain "keys" (list "timeoutSeconds")) -}}
{{- include "gpu-operator.copy" (dict "from" . "into" $drain "keys" (list "podSelector")) -}}
{{- $_ := set $policy "drain" $drain -}}
{{- end -}}
{{- include "gpu-operator.copy" (dict "from" $from "into" $policy "keys" (list "schedule")) -}}
{{- include "gpu-operator.copyGiven" (dict "from" $from "into" $policy "keys" (list "imageCheck")) -}}
{{- $_ := set .into "upgradePolicy" $policy -}}
{{- end -}}

{{- define "gpu-operator.driver" -}}
{{- $from := .root.Values.driver -}}
{{- if $from.nvidiaDriverCRD.enabled -}}
{{- /* All else is said by NVIDIADriver objects. */ -}}
{{- $driver := dict "enabled" $from.enabled "useNvidiaDriverCRD" true -}}
{{- with $from.upgradePolicy -}}
{{- include "gpu-operator.upgradePolicy" (dict "from" . "into" $driver) -}}
{{- end -}}
{{- $_ := set .spec "driver" $driver -}}
{{- else -}}
{{- $driver := dict "enabled" $from.enabled "useNvidiaDriverCRD" false "kernelModuleType" $from.kernelModuleType "usePrecompiled" $from.usePrecompiled -}}
{{- include "gpu-operator.imageParts" (dict "root" .root "path" "driver" "from" $from "into" $driver) -}}
{{- include "gpu-operator.copy" (dict "from" $from "into" $driver "keys" (list "imagePullPolicy" "imagePullSecrets" "startupProbe" "livenessProbe" "readinessProbe" "env" "args" "resources" "repoConfig" "certConfig" "licensingConfig" "virtualTopology" "kernelModuleConfig" "secretEnv" "hostNetwork")) -}}
{{- with $from.rdma -}}
{{- $rdma := dict -}}
{{- include "gpu-operator.copyGiven" (dict "from" . "into" $rdma "keys" (list "enabled" "useHostMofed")) -}}
{{- $_ := set $driver "rdma" $rdma -}}
{{- end -}}
{{- include "gpu-operator.driverManager" (dict "root" .root "path" "driver.manager" "from" $from.manager "into" $driver "name" "manager") -}}
{{- with $from.upgradePolicy -}}
{{- include "gpu-operator.upgradePolicy" (dict "from" . "into" $driver) -}}
{{- end -}}
{{- $_ := set .spec "driver" $driver -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator.validator" -}}
{{- include "gpu-operator.operand" (dict "root" .root "spec" .spec "name" "validator" "defaultVersion" .root.Chart.AppVersion) -}}
{{- $from := .root.Values.validator -}}
{{- $validator := .spec.validator -}}
{{- range $step := list "cuda" "driver" "plugin" "toolkit" "vfioPCI" "vgpuDevices" "vgpuManager" -}}
{{- with get $from $step -}}
{{- $_ := set $validator $step (dict "env" (default list .env)) -}}
{{- end -}}
{{- end -}}
{{- include "gpu-operator.copy" (dict "from" $from "into" $validator "keys" (list "qualification")) -}}
{{- end -}}

{{- define "gpu-operator.nodeOperands" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $spec := .spec -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "toolkit" "keys" (list "installDir")) -}}

{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "devicePlugin") -}}
{{- with $values.devicePlugin.config -}}
{{- if .name -}}
{{- $_ := set $spec.devicePlugin "config" (dict "name" .name "default" (default "" .default)) -}}
{{- end -}}
{{- end -}}
{{- with $values.devicePlugin.mps -}}
{{- if and .root (ne .root "/run/nvidia/mps") -}}
{{- $_ := set $spec.devicePlugin "mps" (dict "root" .root) -}}
{{- end -}}
{{- end -}}

{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "gfd") -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "dcgm") -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "dcgmExporter" "keys" (list "annotations" "serviceMonitor" "service" "hostPID" "enablePodLabels" "enablePodUID" "hpcJobMapping" "podLabelAllowlistRegex")) -}}
{{- with (default dict $values.dcgmExporter.config).name -}}
{{- $_ := set $spec.dcgmExporter "config" (dict "name" .) -}}
{{- end -}}

{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "migManager" "keys" (list "gpuClientsConfig")) -}}
{{- with $values.migManager.config -}}
{{- $config := dict "default" (default "" .default) -}}
{{- include "gpu-operator.copy" (dict "from" . "into" $config "keys" (list "name")) -}}
{{- $_ := set $spec.migManager "config" $config -}}
{{- end -}}

{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "nodeStatusExporter" "defaultVersion" $root.Chart.AppVersion) -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "gds") -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "gdrcopy") -}}
{{- $_ := set $spec.gdrcopy "enabled" (default false $values.gdrcopy.enabled) -}}
{{- end -}}

{{- define "gpu-operator.sandboxOperands" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $spec := .spec -}}
{{- range $name := list "vgpuManager" "vfioManager" -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" $name "keys" (list "kernelModuleConfig")) -}}
{{- include "gpu-operator.driverManager" (dict "root" $root "path" (printf "%s.driverManager" $name) "from" (index $values $name).driverManager "into" (index $spec $name) "name" "driverManager") -}}
{{- end -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "vgpuDeviceManager" "keys" (list "config")) -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "sandboxDevicePlugin") -}}
{{- if not $values.sandboxDevicePlugin.enabled -}}
{{- $_ := unset $spec.sandboxDevicePlugin "enabled" -}}
{{- end -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "kataSandboxDevicePlugin") -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "ccManager" "given" (list "defaultMode")) -}}
{{- include "gpu-operator.operand" (dict "root" $root "spec" $spec "name" "kataManager" "keys" (list "config")) -}}
{{- end -}}

{{- define "gpu-operator.clusterPolicySpec" -}}
{{- $part := dict "root" . "spec" (dict) -}}
{{- include "gpu-operator.clusterSettings" $part -}}
{{- include "gpu-operator.driver" $part -}}
{{- include "gpu-operator.validator" $part -}}
{{- include "gpu-operator.nodeOperands" $part -}}
{{- include "gpu-operator.sandboxOperands" $part -}}
{{- toYaml $part.spec -}}
{{- end -}}
