{{- define "node-feature-discovery.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "node-feature-discovery.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $name = .Release.Name -}}
{{- else -}}
{{- $name = printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "node-feature-discovery.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "node-feature-discovery.selectorLabels" -}}
app.kubernetes.io/name: {{ include "node-feature-discovery.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "node-feature-discovery.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "node-feature-discovery.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "node-feature-discovery.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- .Values.image.repository }}{{ ternary "@" ":" (hasPrefix "sha256:" $tag) }}{{ $tag -}}
{{- end -}}

{{/* Name of a component's ServiceAccount. Arguments: root, component (master, worker or gc). */}}
{{- define "node-feature-discovery.serviceAccountName" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- $fullname := include "node-feature-discovery.fullname" .root -}}
{{- $generated := ternary $fullname (printf "%s-%s" $fullname .component) (eq .component "master") -}}
{{- default (ternary $generated "default" $account.create) $account.name -}}
{{- end -}}

{{/* Objects that belong to a component have its name and its role. Arguments: root, component. */}}
{{- define "node-feature-discovery.componentMeta" -}}
name: {{ include "node-feature-discovery.fullname" .root }}-{{ .component }}
namespace: {{ include "node-feature-discovery.namespace" .root }}
labels:
  {{- include "node-feature-discovery.labels" .root | nindent 2 }}
  role: {{ .component }}
{{- end -}}

{{- define "node-feature-discovery.matchLabels" -}}
{{ include "node-feature-discovery.selectorLabels" .root }}
role: {{ .component }}
{{- end -}}

{{/* A probe: where to ask, and those numbers that are set. Arguments: name, values. */}}
{{- define "node-feature-discovery.probe" -}}
{{ .name }}:
  httpGet:
    path: /healthz
    port: http
  {{- range $key, $value := .values }}
  {{- if not (kindIs "invalid" $value) }}
  {{ $key }}: {{ $value | int64 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/*
The pod template of a component, with one container that runs the program nfd-<component>.
Arguments: root, component; args, env, mounts and volumes (lists); config (what the pods restart
for); priorityClassName.
*/}}
{{- define "node-feature-discovery.podTemplate" -}}
{{- $root := .root -}}
{{- $values := index .root.Values .component -}}
metadata:
  labels:
    {{- include "node-feature-discovery.matchLabels" . | nindent 4 }}
    {{- with $values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .config $values.annotations }}
  annotations:
    {{- with .config }}
    checksum/config: {{ . | sha256sum }}
    {{- end }}
    {{- with $values.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "node-feature-discovery.serviceAccountName" . }}
  dnsPolicy: {{ $values.dnsPolicy }}
  hostNetwork: {{ $values.hostNetwork }}
  enableServiceLinks: false
  {{- if not (kindIs "invalid" $values.hostUsers) }}
  hostUsers: {{ $values.hostUsers }}
  {{- end }}
  {{- with .priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with default (default dict $root.Values.global).imagePullSecrets $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "node-feature-discovery.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [nfd-{{ .component }}]
      args:
        {{- range .args }}
        - {{ . }}
        {{- end }}
        - -port={{ $values.port | int64 }}
        {{- with $values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - name: NODE_NAME
          valueFrom:
            fieldRef:
              fieldPath: spec.nodeName
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $values.extraEnvs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: {{ $values.port | int64 }}
      {{- range $kind := list "startupProbe" "livenessProbe" "readinessProbe" }}
      {{- if hasKey $values $kind }}
      {{- include "node-feature-discovery.probe" (dict "name" $kind "values" (get $values $kind)) | nindent 6 }}
      {{- end }}
      {{- end }}
      {{- with $values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .mounts }}
      volumeMounts:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- with .volumes }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/*
What pods of a component restart for: the text of its configuration, with the chart's version unless
only the values count. Arguments: root, component.
*/}}
{{- define "node-feature-discovery.configIdentity" -}}
{{- $config := toYaml (index .root.Values .component).config -}}
{{- ternary $config (printf "%s\n%s" .root.Chart.Version $config) .root.Values.checksumValuesOnly -}}
{{- end -}}

{{/* Labels and annotations of what exists only while a release is being removed. */}}
{{- define "node-feature-discovery.pruneMeta" }}
  labels:
    {{- include "node-feature-discovery.labels" . | nindent 4 }}
  annotations:
    helm.sh/hook: post-delete
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
