{{/* Labels of every object; the argument is the root. */}}
{{- define "simulated-gpus.labels" -}}
app.kubernetes.io/name: simulated-gpus
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The name of a pool's objects. Arguments: root, pool. */}}
{{- define "simulated-gpus.poolName" -}}
{{- printf "%s-%s" .root.Release.Name .pool.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "simulated-gpus.image" -}}
{{- $tag := default (printf "%s-debian12" .Chart.AppVersion) .Values.image.tag -}}
{{- printf "%s/%s:%s" .Values.image.repository .Values.image.name $tag -}}
{{- end -}}

{{/* The description of a pool's GPUs, as the simulation reads it. */}}
{{- define "simulated-gpus.description" -}}
{{- with .cpus }}cpus: {{ . }}
{{ end -}}
gpus:
{{ toYaml .gpus | indent 2 }}
{{- end -}}

{{/* The container that is the hardware, and the console for faults. Arguments: root. */}}
{{- define "simulated-gpus.hardware" -}}
- name: hardware
  image: {{ include "simulated-gpus.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [pitcrew-simulate, hardware]
  args:
    - --description=/etc/simulated-gpus/simulated-gpus.yaml
    - --host-root=/host
    {{- if and .root.Values.nodeFeatures.folder .root.Values.nodeFeatures.names }}
    - --features={{ .root.Values.nodeFeatures.folder }}
    {{- range .root.Values.nodeFeatures.names }}
    - --feature={{ . }}
    {{- end }}
    {{- end }}
  startupProbe:
    exec:
      command: [pitcrew-simulate, hardware, --check, --host-root=/host]
    periodSeconds: 1
    failureThreshold: 60
  # Writes to the node's /etc.
  securityContext:
    privileged: true
  {{- with .root.Values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: description
      mountPath: /etc/simulated-gpus
      readOnly: true
    - name: host-etc
      mountPath: /host/etc
    - name: run-nvidia
      mountPath: /run/nvidia
      mountPropagation: HostToContainer
{{- end -}}
