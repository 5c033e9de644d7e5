{{/* Annotations of a hook. Arguments: phase and weight, as a list. */}}
{{- define "gpu-operator.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: hook-succeeded,before-hook-creation
{{- end -}}

{{/* Arguments that name the definitions in the image, as a list. */}}
{{- define "gpu-operator.definitionFiles" -}}
- --filepath=/opt/gpu-operator/nvidia.com_clusterpolicies.yaml
- --filepath=/opt/gpu-operator/nvidia.com_nvidiadrivers.yaml
{{- if .Values.nfd.enabled }}
- --filepath=/opt/gpu-operator/nfd-api-crds.yaml
{{- end }}
{{- end -}}

{{/* A Job with the operator's image. Arguments: root, name, phase, weight, serviceAccount, command. */}}
{{- define "gpu-operator.hookJob" -}}
{{- $operator := .root.Values.operator -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "gpu-operator.labels" .root | nindent 4 }}
  annotations:
    {{- include "gpu-operator.hook" (list .phase .weight) | nindent 4 }}
spec:
  template:
    metadata:
      name: {{ .name }}
      labels:
        {{- include "gpu-operator.labels" .root | nindent 8 }}
    spec:
      serviceAccountName: {{ .serviceAccount }}
      {{- with $operator.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        {{- if not .root.Values.platform.openshift }}
        runAsUser: 1000
        runAsGroup: 1000
        {{- end }}
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {{ trimPrefix "gpu-operator-" .name }}
          image: {{ include "gpu-operator.operatorImage" .root }}
          imagePullPolicy: {{ $operator.imagePullPolicy }}
          command: {{ toJson .command }}
          env:
            - name: OPERATOR_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
      {{- with $operator.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $operator.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      restartPolicy: OnFailure
{{- end -}}
