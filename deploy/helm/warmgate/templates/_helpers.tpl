{{- define "warmgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 52 characters, so that suffixes such as "-valkey-0" fit. */}}
{{- define "warmgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "warmgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "warmgate.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of a selector. A selector cannot be changed, so no label here depends on a version or a changeable value. */}}
{{- define "warmgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "warmgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "warmgate.valkeySelectorLabels" -}}
app.kubernetes.io/name: {{ include "warmgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: valkey
{{- end -}}

{{- define "warmgate.commonLabels" -}}
app.kubernetes.io/name: {{ include "warmgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- $own := list "name" "instance" "version" "managed-by" "component" }}
{{- range $label, $value := .Values.commonLabels }}
{{- if not (has (trimPrefix "app.kubernetes.io/" $label) $own) }}
{{ $label }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "warmgate.labels" -}}
{{ include "warmgate.commonLabels" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "warmgate.image" -}}
{{- $repository := include "warmgate.inRegistry" (dict "root" . "image" .Values.image.repository) -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An image whose registry is replaced by global.imageRegistry. The registry is a first part with a dot or a port. */}}
{{- define "warmgate.inRegistry" -}}
{{- $registry := dig "imageRegistry" "" (.root.Values.global | default dict) | default "" -}}
{{- if $registry -}}
{{ trimSuffix "/" $registry }}/{{ regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" .image "" }}
{{- else -}}
{{ .image }}
{{- end -}}
{{- end -}}

{{- define "warmgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "warmgate.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "warmgate.configMapName" -}}
{{ .Values.existingConfigMap.name | default (include "warmgate.fullname" .) }}
{{- end -}}

{{- define "warmgate.configKey" -}}
{{ ternary .Values.existingConfigMap.key "warmgate.yaml" (ne .Values.existingConfigMap.name "") }}
{{- end -}}

{{/* ---- replicas */}}

{{/* Number of replicas. The old name `replicas` takes precedence. */}}
{{- define "warmgate.replicaCount" -}}
{{ ternary .Values.replicaCount .Values.replicas (kindIs "invalid" .Values.replicas) }}
{{- end -}}

{{/* Deprecated names of values that are used, one per line. */}}
{{- define "warmgate.oldNames" -}}
{{- if not (kindIs "invalid" .Values.replicas) }}{{ println "replicas is now replicaCount." }}{{ end -}}
{{- range $name, $_ := .Values.probes | default dict }}{{ printf "probes.%s is now %sProbe.\n" $name $name }}{{ end -}}
{{- range $number, $host := .Values.ingress.hosts -}}
{{- if kindIs "string" $host }}{{ printf "ingress.hosts[%d] is now {host: %s, paths: [...]}.\n" $number $host }}{{ end -}}
{{- end -}}
{{- range $number, $path := .Values.ingress.paths -}}
{{- if kindIs "string" $path }}{{ printf "ingress.paths[%d] is now {path: %s, pathType: Prefix}.\n" $number $path }}{{ end -}}
{{- end -}}
{{- range $name := list "paths" "filters" -}}
{{- if get $.Values.httpRoute $name }}{{ printf "httpRoute.%s is now part of httpRoute.rules.\n" $name }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Timing of a probe. Values under the old name take precedence. */}}
{{- define "warmgate.probe" -}}
{{- $old := dig .name dict (.root.Values.probes | default dict) | default dict -}}
{{- mergeOverwrite (deepCopy (get .root.Values (printf "%sProbe" .name))) $old | toYaml -}}
{{- end -}}

{{- define "warmgate.leastReplicas" -}}
{{- if .Values.autoscaling.enabled -}}{{ .Values.autoscaling.minReplicas }}
{{- else if .Values.keda.enabled -}}{{ .Values.keda.minReplicas }}
{{- else -}}{{ include "warmgate.replicaCount" . }}
{{- end -}}
{{- end -}}

{{- define "warmgate.mostReplicas" -}}
{{- if .Values.autoscaling.enabled -}}{{ .Values.autoscaling.maxReplicas }}
{{- else if .Values.keda.enabled -}}{{ .Values.keda.maxReplicas }}
{{- else -}}{{ include "warmgate.replicaCount" . }}
{{- end -}}
{{- end -}}

{{/* ---- settings */}}

{{/* Kind of the store: sqlite, redis, or nothing. A URL in a Secret is one of Redis, because a file needs no password. */}}
{{- define "warmgate.storeKind" -}}
{{- $url := dig "store" "url" "" .Values.config | default "" -}}
{{- if or .Values.valkey.enabled .Values.secrets.storeUrl.name (regexMatch "^(rediss?|unix)://" $url) -}}redis
{{- else if hasPrefix "sqlite:" $url -}}sqlite
{{- end -}}
{{- end -}}

{{/* Mounted settings: `config`, and settings that follow from other values. */}}
{{- define "warmgate.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $store := deepCopy (get $config "store" | default dict) -}}
{{- if and (eq (include "warmgate.storeKind" .) "redis") (not (hasKey $store "replicas")) -}}
{{- $_ := set $store "replicas" (include "warmgate.mostReplicas" . | int) -}}
{{- end -}}
{{- if $store -}}
{{- $_ := set $config "store" $store -}}
{{- end -}}
{{- if and (include "warmgate.isPicker" .) (not (dig "picker" "listen" "" .Values.config)) -}}
{{- $every := ternary "[::]" "0.0.0.0" (contains ":" (dig "server" "host" "0.0.0.0" .Values.config)) -}}
{{- $_ := set $config "picker" (merge (dict "listen" (printf "%s:%s" $every (include "warmgate.pickerPort" .))) (get $config "picker" | default dict)) -}}
{{- end -}}
{{- if and .Values.sharedFiles.enabled (not (dig "files" "folder" "" .Values.config)) -}}
{{- $_ := set $config "files" (merge (dict "folder" "/var/lib/warmgate-files") (get $config "files" | default dict)) -}}
{{- end -}}
{{- if include "warmgate.usesBucket" . -}}
{{- $files := get $config "files" -}}
{{- $_ := set $files "s3" (merge (dict) (get $files "s3") (dict "scratch_folder" "/var/lib/warmgate-scratch")) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Claim of the volume for files, if the chart creates it. */}}
{{- define "warmgate.sharedFilesName" -}}
{{- printf "%s-files" (include "warmgate.fullname" . | trunc 57 | trimSuffix "-") -}}
{{- end -}}

{{/* Checksum of the settings whose change requires new pods. The omitted groups are reloaded by running pods. */}}
{{- define "warmgate.configChecksum" -}}
{{- $config := include "warmgate.config" . | fromYaml -}}
{{- if .Values.configReload -}}
{{- $config = omit $config "models" "routes" "adapters" "guardrails" "teams" "limit_templates" "model_groups" "timeouts" "health" "bedrock" -}}
{{- end -}}
{{- $config | toYaml | sha256sum -}}
{{- end -}}

{{- define "warmgate.httpPort" -}}
{{ dig "server" "port" 8080 .Values.config | int }}
{{- end -}}

{{/* Port of probes and metrics, or empty if they share the port of requests. */}}
{{- define "warmgate.ownProbesPort" -}}
{{- with dig "server" "probes_port" nil .Values.config }}{{ int . }}{{ end -}}
{{- end -}}

{{/* Whether pods are endpoint pickers for Envoy. */}}
{{- define "warmgate.isPicker" -}}
{{ ternary "true" "" (eq .Values.mode "picker") }}
{{- end -}}

{{/* Port of the gRPC server of the endpoint picker. */}}
{{- define "warmgate.pickerPort" -}}
{{ regexFind "[0-9]+$" (dig "picker" "listen" "" .Values.config | default ":9002") }}
{{- end -}}

{{- define "warmgate.inferencePoolName" -}}
{{ .Values.inferencePool.name | default (include "warmgate.fullname" .) }}
{{- end -}}

{{- define "warmgate.probesPortName" -}}
{{ ternary "metrics" "http" (ne (include "warmgate.ownProbesPort" .) "") }}
{{- end -}}

{{- define "warmgate.adminPort" -}}
{{- with dig "admin" "port" nil .Values.config }}{{ int . }}{{ end -}}
{{- end -}}

{{/* Port to which engines connect to publish KV events, or empty if engines do not connect. */}}
{{- define "warmgate.eventsPort" -}}
{{- with dig "kv_events" "bind" nil .Values.config }}{{ regexFind "[0-9]+$" . }}{{ end -}}
{{- end -}}

{{/* Peers that can connect to that port: those of the values, or else those of the settings, or else any pod. */}}
{{- define "warmgate.eventPeers" -}}
{{- $peers := .Values.networkPolicy.enginesFrom -}}
{{- if not $peers -}}
{{- range dig "kv_events" "allowed_cidrs" list .Values.config -}}
{{- $cidr := ternary . (printf "%s/%s" . (ternary "128" "32" (contains ":" .))) (contains "/" .) -}}
{{- $peers = append $peers (dict "ipBlock" (dict "cidr" $cidr)) -}}
{{- end -}}
{{- end -}}
{{- $peers | default (list (dict "namespaceSelector" dict)) | toYaml -}}
{{- end -}}

{{/* ---- shutdown, in seconds */}}

{{- define "warmgate.stopSeconds" -}}
{{- $server := get .Values.config "server" | default dict -}}
{{- $delay := get $server "stop_delay_s" | default 0 -}}
{{- $grace := ternary (get $server "shutdown_grace_s") 30 (hasKey $server "shutdown_grace_s") -}}
{{- add (.Values.preStopSleepSeconds | int) ($delay | float64 | ceil | int) ($grace | int) -}}
{{- end -}}

{{- define "warmgate.graceSeconds" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add (include "warmgate.stopSeconds" . | int) (.Values.slackSeconds | int) -}}
{{- else -}}
{{- .Values.terminationGracePeriodSeconds | int -}}
{{- end -}}
{{- end -}}

{{/* ---- finding workers in Kubernetes */}}

{{- define "warmgate.readsSlices" -}}
{{- $set :=  .Values.rbac.endpointSlices -}}
{{- if kindIs "bool" $set -}}
{{- ternary "true" "" $set -}}
{{- else -}}
{{- range .Values.config.models }}{{ if .service }}true{{ end }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "warmgate.readsPods" -}}
{{- $set :=  .Values.rbac.pods -}}
{{- if kindIs "bool" $set -}}
{{- ternary "true" "" $set -}}
{{- else -}}
{{- range .Values.config.models }}{{ if or .pods .inference_pool }}true{{ end }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "warmgate.readsPools" -}}
{{- $set :=  .Values.rbac.inferencePools -}}
{{- if kindIs "bool" $set -}}
{{- ternary "true" "" $set -}}
{{- else -}}
{{- range .Values.config.models }}{{ if .inference_pool }}true{{ end }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "warmgate.readsObjectives" -}}
{{- $set :=  .Values.rbac.inferenceObjectives -}}
{{- if kindIs "bool" $set -}}
{{- ternary "true" "" $set -}}
{{- else -}}
{{- range .Values.config.models }}{{ if dig "inference_pool" "objectives" false . }}true{{ end }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "warmgate.readsRewrites" -}}
{{- $set :=  .Values.rbac.inferenceModelRewrites -}}
{{- if kindIs "bool" $set -}}
{{- ternary "true" "" $set -}}
{{- else -}}
{{- range .Values.config.models }}{{ if dig "inference_pool" "rewrites" false . }}true{{ end }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "warmgate.asksKubernetes" -}}
{{- if or (include "warmgate.readsSlices" .) (include "warmgate.readsPods" .) (include "warmgate.readsPools" .) -}}true{{- end -}}
{{- end -}}

{{/* Namespaces of workers, one per line. */}}
{{- define "warmgate.watchedNamespaces" -}}
{{- $usual := dig "kubernetes" "namespace" nil .Values.config | default .Release.Namespace -}}
{{- $found := .Values.rbac.namespaces -}}
{{- range .Values.config.models -}}
{{- range list .service .pods .inference_pool -}}
{{- if kindIs "map" . -}}
{{- $found = append $found (.namespace | default $usual) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- $found = list $usual -}}
{{- end -}}
{{- $found | uniq | sortAlpha | join "\n" -}}
{{- end -}}

{{- define "warmgate.rules" -}}
{{- if include "warmgate.readsSlices" . }}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
{{- end }}
{{- if include "warmgate.readsPods" . }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- end }}
{{- if include "warmgate.readsPools" . }}
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [get, list, watch]
{{- end }}
{{- if include "warmgate.readsObjectives" . }}
- apiGroups: [llm-d.ai]
  resources: [inferenceobjectives]
  verbs: [get, list, watch]
{{- end }}
{{- if include "warmgate.readsRewrites" . }}
- apiGroups: [llm-d.ai]
  resources: [inferencemodelrewrites]
  verbs: [get, list, watch]
{{- end }}
{{- end -}}

{{/* ---- outgoing connections */}}

{{- define "warmgate.usesBedrock" -}}
{{- range .Values.config.models -}}
{{- if .bedrock }}true{{ end -}}
{{- range .fallbacks }}{{ if .bedrock }}true{{ end }}{{ end -}}
{{- end -}}
{{- range .Values.config.guardrails }}{{ if eq (toString .kind) "bedrock" }}true{{ end }}{{ end -}}
{{- end -}}

{{/* Whether the contents of files are in a bucket. */}}
{{- define "warmgate.usesBucket" -}}
{{- if dig "files" "s3" nil .Values.config }}true{{ end -}}
{{- end -}}

{{/* Whether the gateway calls services of AWS at their usual addresses. */}}
{{- define "warmgate.usesAws" -}}
{{- include "warmgate.usesBedrock" . -}}
{{- with dig "files" "s3" nil .Values.config }}{{ if not .endpoint_url }}true{{ end }}{{ end -}}
{{- end -}}

{{/* Port of a URL that begins with http://, https:// or tcp://. */}}
{{- define "warmgate.portOf" -}}
{{- $port := trimPrefix ":" (regexFind ":[0-9]+$" (get (urlParse .) "host")) -}}
{{- $port | default (ternary "443" "80" (hasPrefix "https:" .)) -}}
{{- end -}}

{{/* Ports of workers and KV events in config, one per line. */}}
{{- define "warmgate.enginePorts" -}}
{{- $ports := list -}}
{{- range .Values.networkPolicy.enginePorts -}}
{{- $ports = append $ports (toString (int .)) -}}
{{- end -}}
{{- range .Values.config.models -}}
{{- range .workers -}}
{{- $ports = append $ports (include "warmgate.portOf" .url) -}}
{{- $ranks := .ranks | default 1 | int -}}
{{- $streams := list .kv_events -}}
{{- with .dynamo -}}
{{- $streams = concat $streams (.streams | default list) -}}
{{- range .instances }}{{ $streams = append $streams .kv_events }}{{ end -}}
{{- range list .kv_events_port .kv_replay_port -}}
{{- if . }}{{ $ports = append $ports (toString (int .)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $streams -}}
{{- if . -}}
{{- $of := max (.ranks | default 1 | int) $ranks | int -}}
{{- range list .endpoint .replay_endpoint -}}
{{- if and . (hasPrefix "tcp:" .) -}}
{{- $base := include "warmgate.portOf" . | int -}}
{{- range until $of }}{{ $ports = append $ports (add $base . | toString) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range list .service .pods .dns -}}
{{- if kindIs "map" . -}}
{{- if regexMatch "^[0-9]+$" (toString .port) -}}
{{- $ports = append $ports (toString .port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | join "\n" -}}
{{- end -}}

{{/* Ports of the Kubernetes API: of the Service, of the servers behind the Service, and of kubernetes.api_url in config. */}}
{{- define "warmgate.apiPorts" -}}
{{- $ports := list "443" "6443" -}}
{{- with dig "kubernetes" "api_url" nil .Values.config }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end -}}
{{- $ports | uniq | join "\n" -}}
{{- end -}}

{{/* Ports of the store: those in the values, and the port of store.url in config. */}}
{{- define "warmgate.storePorts" -}}
{{- $ports := list -}}
{{- range .Values.networkPolicy.storePorts }}{{ $ports = append $ports (toString (int .)) }}{{ end -}}
{{- with dig "store" "url" nil .Values.config -}}
{{- $ports = append $ports (trimPrefix ":" (regexFind ":[0-9]+$" (get (urlParse .) "host")) | default "6379") -}}
{{- end -}}
{{- if .Values.valkey.enabled }}{{ $ports = append $ports "6379" }}{{ end -}}
{{- $ports | uniq | join "\n" -}}
{{- end -}}

{{/* Ports of other services in config: fallbacks, custom endpoints of Bedrock, guardrails, identity providers and trace receivers. */}}
{{- define "warmgate.servicePorts" -}}
{{- $ports := list -}}
{{- range .Values.config.guardrails -}}
{{- range list .url .endpoint_url }}{{ if . }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end }}{{ end -}}
{{- end -}}
{{- range dig "identity" "issuers" list .Values.config -}}
{{- range list .issuer .jwks_url }}{{ if . }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end }}{{ end -}}
{{- end -}}
{{- range dig "alerts" "webhooks" list .Values.config }}{{ $ports = append $ports (include "warmgate.portOf" .url) }}{{ end -}}
{{- range dig "batches" "webhooks" list .Values.config }}{{ $ports = append $ports (include "warmgate.portOf" .url) }}{{ end -}}
{{- range dig "alerts" "slack" list .Values.config }}{{ $ports = append $ports "443" }}{{ end -}}
{{- range dig "alerts" "email" list .Values.config }}{{ $ports = append $ports (.port | default 587 | int | toString) }}{{ end -}}
{{- with dig "files" "s3" nil .Values.config }}{{ with .endpoint_url }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end }}{{ end -}}
{{- with dig "tracing" "endpoint" nil .Values.config }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end -}}
{{- range .Values.config.teams -}}
{{- with .tracing }}{{ with .endpoint }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end }}{{ end -}}
{{- end -}}
{{- range .Values.config.models -}}
{{- range .fallbacks -}}
{{- with .openai }}{{ $ports = append $ports (include "warmgate.portOf" .url) }}{{ end -}}
{{- with .bedrock }}{{ with .endpoint_url }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end }}{{ end -}}
{{- end -}}
{{- with .bedrock }}{{ with .endpoint_url }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end }}{{ end -}}
{{- end -}}
{{- with dig "bedrock" "endpoint_url" nil .Values.config }}{{ $ports = append $ports (include "warmgate.portOf" .) }}{{ end -}}
{{- $ports | uniq | sortAlpha | join "\n" -}}
{{- end -}}

{{/* ---- secrets */}}

{{/* Paths in `node` with a secret in plain text, one per line. */}}
{{- define "warmgate.plainSecrets" -}}
{{- $place := .place -}}
{{- if kindIs "map" .node -}}
{{- range $name, $value := .node -}}
{{- $here := printf "%s.%s" $place $name -}}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) -}}
{{- include "warmgate.plainSecrets" (dict "place" $here "node" $value) -}}
{{- else if and (has $name (list "secret" "api_key" "pepper" "bearer_token")) (not (kindIs "invalid" $value)) -}}
{{- printf "%s\n" $here -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" .node -}}
{{- range $number, $value := .node -}}
{{- include "warmgate.plainSecrets" (dict "place" (printf "%s[%d]" $place $number) "node" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Variables that `node` names with secret_env, one per line. */}}
{{- define "warmgate.secretEnvs" -}}
{{- if kindIs "map" .node -}}
{{- range $name, $value := .node -}}
{{- if and (eq $name "secret_env") (kindIs "string" $value) -}}
{{- printf "%s\n" $value -}}
{{- else -}}
{{- include "warmgate.secretEnvs" (dict "node" $value) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" .node -}}
{{- range .node }}{{ include "warmgate.secretEnvs" (dict "node" .) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "warmgate.secretVariable" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .from.name }}
      key: {{ .from.key }}
{{- end -}}

{{/* Name of the Secret with the password of the chart's Valkey. */}}
{{- define "warmgate.valkeySecret" -}}
{{ .Values.valkey.auth.existingSecret.name | default (printf "%s-valkey" (include "warmgate.fullname" .)) }}
{{- end -}}

{{- define "warmgate.valkeySecretKey" -}}
{{ ternary .Values.valkey.auth.existingSecret.key "password" (ne .Values.valkey.auth.existingSecret.name "") }}
{{- end -}}

{{- define "warmgate.valkeyPassword" -}}
{{ include "warmgate.secretVariable" (dict "variable" .variable "from" (dict "name" (include "warmgate.valkeySecret" .root) "key" (include "warmgate.valkeySecretKey" .root))) }}
{{- end -}}

{{/* Paths of limits that each gateway would count separately without a shared store, one per line. */}}
{{- define "warmgate.countedLimits" -}}
{{- range $number, $team := .Values.config.teams -}}
{{- $place := printf "config.teams[%d]" $number -}}
{{- range $name := list "limits" "model_limits" "user_limits" "session_limits" "project_limits" -}}
{{- if include "warmgate.hasValue" (get $team $name) }}{{ printf "%s.%s\n" $place $name }}{{ end -}}
{{- range $key, $each := $team.keys -}}
{{- if include "warmgate.hasValue" (get $each $name) }}{{ printf "%s.keys[%d].%s\n" $place $key $name }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether a map contains a value that is not null, at any depth. */}}
{{- define "warmgate.hasValue" -}}
{{- if kindIs "map" . -}}
{{- range . }}{{ include "warmgate.hasValue" . }}{{ end -}}
{{- else if ne (toString (default "" .)) "" -}}true
{{- end -}}
{{- end -}}

{{/* ---- sizes */}}

{{/* Number of MiB of a quantity in Mi or Gi, or empty for other units. */}}
{{- define "warmgate.mebibytes" -}}
{{- $text := toString . -}}
{{- if regexMatch "^[0-9]+Gi$" $text -}}{{ mul (trimSuffix "Gi" $text | int) 1024 }}
{{- else if regexMatch "^[0-9]+Mi$" $text -}}{{ trimSuffix "Mi" $text }}
{{- end -}}
{{- end -}}
