{{- define "gpu-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpu-operator.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of every object of the chart. */}}
{{- define "gpu-operator.labels" -}}
app.kubernetes.io/name: {{ include "gpu-operator.name" . }}
helm.sh/chart: {{ include "gpu-operator.chart" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.operator.labels }}
{{ toYaml . }}
{{- end }}
app.kubernetes.io/component: "gpu-operator"
{{- end -}}

{{/*
Not empty when the image behind .path is NVIDIA's by default: with images.source=nvidia, and where the
operand starts a program that Pitcrew's image lacks. Arguments: root, path, entry (of files/nvidia-images.yaml).
*/}}
{{- define "gpu-operator.theirImage" -}}
{{- if eq .root.Values.images.source "nvidia" -}}
true
{{- else if .entry -}}
{{- $programs := default list .entry.programs -}}
{{- range $path, $more := default dict .entry.when -}}
{{- if include "gpu-operator.valueAt" (dict "values" $.root.Values "path" $path) -}}
{{- $programs = concat $programs $more -}}
{{- end -}}
{{- end -}}
{{- $ours := (.root.Files.Get "files/image-programs.yaml" | fromYaml).programs -}}
{{- range $program := $programs -}}
{{- if not (has $program $ours) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The value of a path as text; empty where there is none or where it is false. Arguments: values, path. */}}
{{- define "gpu-operator.valueAt" -}}
{{- $node := .values -}}
{{- range $name := splitList "." .path -}}
{{- $node = ternary (get (default dict $node) $name) "" (kindIs "map" $node) -}}
{{- end -}}
{{- if $node -}}{{- toString $node -}}{{- end -}}
{{- end -}}

{{/*
The image of one set of values as a dictionary with repository, image and version, written into
.into; parts that are empty are left out. A part that still has Pitcrew's default becomes NVIDIA's of
files/nvidia-images.yaml where gpu-operator.theirImage says so; all of them where Pitcrew's image was
meant (its name stands in .from) and lacks a program.
Arguments: root, path (of the values, for the table), from (the values), into (a dictionary),
defaultVersion (for values that have none; not when image alone is the whole reference).
*/}}
{{- define "gpu-operator.imageParts" -}}
{{- $ours := dict "repository" "docker.io/pitcrew" "image" "pitcrew" "version" .root.Chart.AppVersion -}}
{{- $entry := default dict (get (.root.Files.Get "files/nvidia-images.yaml" | fromYaml) .path) -}}
{{- $theirs := dict -}}
{{- if include "gpu-operator.theirImage" (dict "root" .root "path" .path "entry" $entry) -}}
{{- $theirs = $entry -}}
{{- end -}}
{{- $from := .from -}}
{{- $into := .into -}}
{{- /* A registry that was named for Pitcrew's image says nothing about where NVIDIA's is. */ -}}
{{- $moved := and $theirs (eq .root.Values.images.source "pitcrew") (eq (default "" $from.image) $ours.image) -}}
{{- $version := .defaultVersion -}}
{{- range $part := list "repository" "image" "version" -}}
{{- $value := default "" (get $from $part) | toString -}}
{{- if and (eq $part "version") (not $value) $from.repository -}}
{{- $value = default "" $version -}}
{{- end -}}
{{- if $moved -}}
{{- $value = default $.root.Chart.AppVersion (get $theirs $part) -}}
{{- else if and (eq $value (get $ours $part)) (hasKey $theirs $part) -}}
{{- $value = get $theirs $part -}}
{{- end -}}
{{- if $value -}}
{{- $_ := set $into $part $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
An image reference for the operator's own pod: repository/image:version, or @version for a digest.
Arguments as for gpu-operator.imageParts, without into.
*/}}
{{- define "gpu-operator.imageReference" -}}
{{- $parts := dict -}}
{{- include "gpu-operator.imageParts" (merge (dict "into" $parts) .) -}}
{{- if not $parts.image -}}
{{- fail (printf "%s.image: must not be empty" .path) -}}
{{- else if and (not $parts.repository) (not $parts.version) -}}
{{- $parts.image -}}
{{- else if or (not $parts.repository) (not $parts.version) -}}
{{- fail (printf "%s: repository and version must be given both, or neither (then image is a whole reference)" .path) -}}
{{- else if hasPrefix "sha256:" $parts.version -}}
{{- printf "%s/%s@%s" $parts.repository $parts.image $parts.version -}}
{{- else -}}
{{- printf "%s/%s:%s" $parts.repository $parts.image $parts.version -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator.operatorImage" -}}
{{- $images := dict "source" "pitcrew" -}}
{{- $root := dict "Values" (dict "images" $images) "Chart" .Chart "Files" .Files -}}
{{- include "gpu-operator.imageReference" (dict "root" $root "path" "operator" "from" .Values.operator "defaultVersion" .Chart.AppVersion) -}}
{{- end -}}

{{/* Copies the keys whose values are neither empty nor false. Arguments: from, into, keys. */}}
{{- define "gpu-operator.copy" -}}
{{- $from := .from -}}
{{- $into := .into -}}
{{- range $key := .keys -}}
{{- $value := get $from $key -}}
{{- if $value -}}
{{- $_ := set $into $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Copies the keys that have a value, be it false or empty. Arguments: from, into, keys. */}}
{{- define "gpu-operator.copyGiven" -}}
{{- $from := .from -}}
{{- $into := .into -}}
{{- range $key := .keys -}}
{{- if and (hasKey $from $key) (not (kindIs "invalid" (get $from $key))) -}}
{{- $_ := set $into $key (get $from $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The values that are set and have no effect, as a YAML list: what older charts of NVIDIA knew, what its
own chart takes and uses nowhere, and what Pitcrew does not do yet.
*/}}
{{- define "gpu-operator.ignoredValues" -}}
{{- $values := .Values -}}
{{- range $path := list "cdi.default" "daemonsets.podSecurityContext" "dcgm.hostPort" "driver.nvidiaDriverCRD.nodeSelector" "driver.rollingUpdate" "driver.useOpenKernelModules" "nfd.nodefeaturerules" "node-feature-discovery.master.enableTaints" "operator.defaultGPUMode" "operator.defaultRuntime" "operator.initContainer" "psp" "toolkit.args" }}
{{- if include "gpu-operator.valueAt" (dict "values" $values "path" $path) }}
- {{ $path }}
{{- end -}}
{{- end -}}
{{- range $name := list "dcgmExporter" "migManager" -}}
{{- $config := default dict (get $values $name).config -}}
{{- if and $config.create (not $config.data) }}
- {{ $name }}.config.create (without {{ $name }}.config.data)
{{- end -}}
{{- end -}}
{{- range $name, $block := $values -}}
{{- if kindIs "map" $block -}}
{{- if not (has (default "" $block.imagePullPolicy) (list "" "Always" "IfNotPresent" "Never")) }}
- {{ $name }}.imagePullPolicy ({{ $block.imagePullPolicy }}; IfNotPresent counts)
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Operands whose image is NVIDIA's although images.source is pitcrew, as a YAML list of their values. */}}
{{- define "gpu-operator.foreignOperands" -}}
{{- $root := . -}}
{{- if eq .Values.images.source "pitcrew" -}}
{{- range $path, $entry := .Files.Get "files/nvidia-images.yaml" | fromYaml -}}
{{- $block := get $root.Values (first (splitList "." $path)) -}}
{{- $sandbox := has $path (list "kataSandboxDevicePlugin" "sandboxDevicePlugin" "vfioManager" "vgpuDeviceManager") -}}
{{- $used := and (ne (toString $block.enabled) "false") (or $root.Values.sandboxWorkloads.enabled (not $sandbox)) -}}
{{- if and $used (include "gpu-operator.theirImage" (dict "root" $root "path" $path "entry" $entry)) }}
- {{ $path }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
