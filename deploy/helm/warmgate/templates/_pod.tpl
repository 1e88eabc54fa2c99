{{- define "warmgate.env" -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
{{- if not .Values.existingConfigMap.name }}
{{- if not (dig "server" "zone" "" .Values.config) }}
# Kubernetes 1.35 and later copies the node's label to the pod. Before 1.35, the variable is empty and has no effect.
- {name: WARMGATE_SERVER__ZONE, valueFrom: {fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}}}
{{- end }}
# The image sets this variable, which would override the settings file.
- {name: WARMGATE_SERVER__HOST, value: {{ dig "server" "host" "0.0.0.0" .Values.config | quote }}}
{{- end }}
{{- if .Values.valkey.enabled }}
{{ include "warmgate.valkeyPassword" (dict "root" . "variable" "VALKEY_PASSWORD") }}
- {name: WARMGATE_STORE__URL, value: "redis://:$(VALKEY_PASSWORD)@{{ include "warmgate.fullname" . }}-valkey:6379/0"}
{{- end }}
{{- with .Values.secrets }}
{{- range $variable, $from := dict "WARMGATE_STORE__URL" .storeUrl "WARMGATE_STORE__PEPPER" .storePepper "WARMGATE_BEDROCK__BEARER_TOKEN" .bedrockToken }}
{{- if $from.name }}
{{ include "warmgate.secretVariable" (dict "variable" $variable "from" $from) }}
{{- end }}
{{- end }}
{{- range $variable, $from := .env }}
{{ include "warmgate.secretVariable" (dict "variable" $variable "from" $from) }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "warmgate.affinity" -}}
{{- if .Values.affinity -}}
{{- toYaml .Values.affinity -}}
{{- else -}}
{{- if .Values.avoidGpuNodes }}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: nvidia.com/gpu.present, operator: NotIn, values: ["true"]}
          - {key: karpenter.k8s.aws/instance-gpu-count, operator: DoesNotExist}
          - {key: eks.amazonaws.com/instance-gpu-count, operator: DoesNotExist}
          - {key: karpenter.k8s.aws/instance-accelerator-count, operator: DoesNotExist}
          - {key: eks.amazonaws.com/instance-accelerator-count, operator: DoesNotExist}
{{- end }}
{{- if eq .Values.antiAffinity "hard" }}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "warmgate.selectorLabels" . | nindent 10 }}
{{- else if eq .Values.antiAffinity "soft" }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "warmgate.selectorLabels" . | nindent 12 }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "warmgate.topologySpread" -}}
{{- if .Values.topologySpreadConstraints -}}
{{- toYaml .Values.topologySpreadConstraints -}}
{{- else if ne .Values.topologySpread.zone "off" -}}
- topologyKey: topology.kubernetes.io/zone
  maxSkew: {{ .Values.topologySpread.maxSkew }}
  whenUnsatisfiable: {{ .Values.topologySpread.zone }}
  # Pods of the former version do not count, so that pods are spread evenly after a rollout.
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "warmgate.selectorLabels" . | nindent 6 }}
- topologyKey: kubernetes.io/hostname
  maxSkew: {{ .Values.topologySpread.maxSkew }}
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "warmgate.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}
