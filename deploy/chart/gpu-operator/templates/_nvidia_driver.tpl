{{/*
The spec of the NVIDIADriver `default`, as a dictionary, from the values that otherwise describe spec.driver of the
ClusterPolicy (clusterpolicy-api.md section 7).
*/}}
{{- define "gpu-operator.nvidiaDriverSpec" -}}
{{- $root := . -}}
{{- $values := .Values -}}
{{- $from := $values.driver -}}
{{- $spec := dict "default" true "driverType" (default "gpu" $from.nvidiaDriverCRD.driverType) "kernelModuleType" $from.kernelModuleType "usePrecompiled" $from.usePrecompiled -}}
{{- include "gpu-operator.imageParts" (dict "root" $root "path" "driver" "from" $from "into" $spec) -}}
{{- include "gpu-operator.copy" (dict "from" $from "into" $spec "keys" (list "imagePullPolicy" "imagePullSecrets" "startupProbe" "livenessProbe" "readinessProbe" "env" "args" "resources" "secretEnv" "hostNetwork")) -}}
{{- include "gpu-operator.copy" (dict "from" $values.daemonsets "into" $spec "keys" (list "annotations" "labels" "tolerations" "priorityClassName")) -}}
{{- include "gpu-operator.driverManager" (dict "root" $root "path" "driver.manager" "from" $from.manager "into" $spec "name" "manager") -}}
{{- with $from.upgradePolicy -}}
{{- include "gpu-operator.upgradePolicy" (dict "from" . "into" $spec) -}}
{{- end -}}
{{- with $from.rdma -}}
{{- $rdma := dict -}}
{{- include "gpu-operator.copyGiven" (dict "from" . "into" $rdma "keys" (list "enabled" "useHostMofed")) -}}
{{- $_ := set $spec "rdma" $rdma -}}
{{- end -}}
{{- with ($from.repoConfig).configMapName -}}
{{- $_ := set $spec "repoConfig" (dict "name" .) -}}
{{- end -}}
{{- with ($from.certConfig).name -}}
{{- $_ := set $spec "certConfig" (dict "name" .) -}}
{{- end -}}
{{- with ($from.kernelModuleConfig).name -}}
{{- $_ := set $spec "kernelModuleConfig" (dict "name" .) -}}
{{- end -}}
{{- with ($from.virtualTopology).config -}}
{{- $_ := set $spec "virtualTopologyConfig" (dict "name" .) -}}
{{- end -}}
{{- with $from.licensingConfig -}}
{{- $licence := dict -}}
{{- if .secretName -}}
{{- $_ := set $licence "secretName" .secretName -}}
{{- else if .configMapName -}}
{{- $_ := set $licence "name" .configMapName -}}
{{- end -}}
{{- if $licence -}}
{{- include "gpu-operator.copyGiven" (dict "from" . "into" $licence "keys" (list "nlsEnabled")) -}}
{{- $_ := set $spec "licensingConfig" $licence -}}
{{- end -}}
{{- end -}}
{{- range $name := list "gds" "gdrcopy" -}}
{{- $sidecar := index $values $name -}}
{{- if $sidecar.enabled -}}
{{- $block := dict "enabled" true -}}
{{- include "gpu-operator.imageParts" (dict "root" $root "path" $name "from" $sidecar "into" $block) -}}
{{- include "gpu-operator.copy" (dict "from" $sidecar "into" $block "keys" (list "imagePullPolicy" "imagePullSecrets" "env" "args")) -}}
{{- $_ := set $spec $name $block -}}
{{- end -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}
