{{/*
Rules between values, which a schema cannot express. Every message begins with the value to change.
*/}}
{{- define "warmgate.validate" -}}
{{- $faults := concat (include "warmgate.faultsOfConfig" . | fromYamlArray) (include "warmgate.faultsOfScale" . | fromYamlArray) (include "warmgate.faultsOfPod" . | fromYamlArray) (include "warmgate.faultsOfAccess" . | fromYamlArray) -}}
{{- if $faults -}}
{{- fail (printf "\n\n%s\n" (join "\n" $faults)) -}}
{{- end -}}
{{- end -}}

{{- define "warmgate.faultsOfConfig" -}}
{{- $faults := list -}}
{{- $own := not .Values.existingConfigMap.name -}}
{{- if and $own (not .Values.config.models) -}}
{{- $faults = append $faults "config.models is empty: list at least one model with its workers." -}}
{{- end -}}
{{- range splitList "\n" (include "warmgate.plainSecrets" (dict "place" "config" "node" .Values.config)) -}}
{{- if . -}}
{{- $faults = append $faults (printf "%s is a secret in plain text: name a Secret below `secrets` instead (use secret_env for a key, and WARMGATE_... variables in secrets.env for other settings)." .) -}}
{{- end -}}
{{- end -}}
{{- $url := dig "store" "url" "" .Values.config | default "" -}}
{{- if regexMatch "://[^/@]*@|[?&]password=" $url -}}
{{- $faults = append $faults "config.store.url holds a password: put the URL into a Secret, and name the Secret in secrets.storeUrl." -}}
{{- end -}}
{{- if and $url (or .Values.valkey.enabled .Values.secrets.storeUrl.name) -}}
{{- $faults = append $faults "config.store.url cannot be combined with valkey.enabled or secrets.storeUrl: set only one store." -}}
{{- end -}}
{{- if and .Values.valkey.enabled .Values.secrets.storeUrl.name -}}
{{- $faults = append $faults "valkey.enabled cannot be combined with secrets.storeUrl: set only one store." -}}
{{- end -}}
{{- if not .Values.secrets.envFrom -}}
{{- $given := keys .Values.secrets.env -}}
{{- range .Values.extraEnv }}{{ $given = append $given .name }}{{ end -}}
{{- range splitList "\n" (include "warmgate.secretEnvs" (dict "node" .Values.config)) | uniq -}}
{{- if and . (not (has . $given)) -}}
{{- $faults = append $faults (printf "secrets.env has no entry %s, but config refers to this variable with secret_env." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.valkey.enabled (not $own) -}}
{{- $faults = append $faults "valkey.enabled has no effect together with existingConfigMap: set store.url in that ConfigMap." -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "warmgate.faultsOfScale" -}}
{{- $faults := list -}}
{{- $least := include "warmgate.leastReplicas" . | int -}}
{{- $most := include "warmgate.mostReplicas" . | int -}}
{{- if and .Values.autoscaling.enabled .Values.keda.enabled -}}
{{- $faults = append $faults "keda.enabled cannot be combined with autoscaling.enabled: two autoscalers would scale the same Deployment." -}}
{{- end -}}
{{- if gt $least $most -}}
{{- $faults = append $faults (printf "%s.minReplicas is above maxReplicas." (ternary "keda" "autoscaling" .Values.keda.enabled)) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.targetCPUUtilizationPercentage) (not .Values.autoscaling.targetInFlight) -}}
{{- $faults = append $faults "autoscaling.enabled needs a target: set autoscaling.targetCPUUtilizationPercentage or autoscaling.targetInFlight." -}}
{{- end -}}
{{- if and (or .Values.keda.enabled .Values.engineScaling) (not .Values.keda.serverAddress) -}}
{{- $faults = append $faults "keda.serverAddress is empty: set the URL of Prometheus." -}}
{{- end -}}
{{- if and (gt $most 1) (ne (include "warmgate.storeKind" .) "redis") (not (include "warmgate.hasStoreVariable" .)) -}}
{{- range splitList "\n" (include "warmgate.countedLimits" .) -}}
{{- if . -}}
{{- $faults = append $faults (printf "%s would be counted separately by each of %d replicas, which together would allow %d times as much: set a Redis store (config.store.url or secrets.storeUrl), or replicaCount: 1." . $most $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (include "warmgate.storeKind" .) "sqlite" -}}
{{- if gt $most 1 -}}
{{- $faults = append $faults "replicaCount is above 1, but config.store.url names a file, which only one gateway can use: use Redis." -}}
{{- end -}}
{{- if not .Values.persistence.enabled -}}
{{- $faults = append $faults "persistence.enabled is false, but config.store.url names a file: the file would be lost with the pod." -}}
{{- end -}}
{{- end -}}
{{- if and .Values.persistence.enabled (gt $most 1) -}}
{{- $faults = append $faults "persistence.enabled requires a single replica, because only one pod can mount the volume." -}}
{{- end -}}
{{- if and .Values.sharedFiles.enabled (not .Values.sharedFiles.existingClaim) (gt $most 1) (not (has "ReadWriteMany" .Values.sharedFiles.accessModes)) -}}
{{- $faults = append $faults "sharedFiles.accessModes has no ReadWriteMany, which more than one replica requires." -}}
{{- end -}}
{{- if and .Values.sharedFiles.enabled (not .Values.existingConfigMap.name) (not (include "warmgate.storeKind" .)) (not (include "warmgate.hasStoreVariable" .)) -}}
{{- $faults = append $faults "sharedFiles.enabled requires a store, which keeps the properties of files: set config.store.url or secrets.storeUrl." -}}
{{- end -}}
{{- if and (include "warmgate.usesBucket" .) .Values.sharedFiles.enabled -}}
{{- $faults = append $faults "sharedFiles.enabled cannot be combined with config.files.s3, because contents of files have one place: disable one of them." -}}
{{- end -}}
{{- if and (gt $most 1) (dig "files" "folder" "" .Values.config) (not .Values.sharedFiles.enabled) (not .Values.extraVolumes) -}}
{{- $faults = append $faults "config.files.folder would be a different folder in each replica: set sharedFiles.enabled." -}}
{{- end -}}
{{- if and (include "warmgate.eventsPort" .) (gt $most 1) -}}
{{- $faults = append $faults "config.kv_events.bind requires a single replica: an engine connects to one replica, and the other replicas would receive no events. Let the engines bind instead, and let the gateway connect." -}}
{{- end -}}
{{- $available := .Values.podDisruptionBudget.minAvailable -}}
{{- if not (or (kindIs "invalid" $available) (kindIs "invalid" .Values.podDisruptionBudget.maxUnavailable)) -}}
{{- $faults = append $faults "podDisruptionBudget.minAvailable cannot be combined with maxUnavailable: Kubernetes accepts only one of them." -}}
{{- end -}}
{{- if and (include "warmgate.hasDisruptionBudget" .) (not (kindIs "invalid" $available)) -}}
{{- if or (eq (toString $available) "100%") (and (not (kindIs "string" $available)) (ge (int $available) $least)) -}}
{{- $faults = append $faults "podDisruptionBudget.minAvailable is not below the number of replicas: no node could be drained." -}}
{{- end -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "warmgate.faultsOfPod" -}}
{{- $faults := list -}}
{{- if not .Values.image.repository -}}
{{- $faults = append $faults "image.repository is empty, and there is no public image: build the image from the Dockerfile, push it, and set image.repository." -}}
{{- end -}}
{{- $stop := include "warmgate.stopSeconds" . | int -}}
{{- $grace := include "warmgate.graceSeconds" . | int -}}
{{- if lt $grace $stop -}}
{{- $faults = append $faults (printf "terminationGracePeriodSeconds is %d, less than preStopSleepSeconds, config.server.stop_delay_s and config.server.shutdown_grace_s together (%d): running streams would be cut off." $grace $stop) -}}
{{- end -}}
{{- $ports := list -}}
{{- range list (include "warmgate.httpPort" .) (include "warmgate.ownProbesPort" .) (include "warmgate.adminPort" .) (include "warmgate.eventsPort" .) (ternary (include "warmgate.pickerPort" .) "" (eq .Values.mode "picker")) -}}
{{- if . -}}
{{- if has . $ports -}}
{{- $faults = append $faults (printf "config uses port %s twice: server.port, server.probes_port, admin.port, kv_events.bind and picker.listen need different ports." .) -}}
{{- else if eq (int .) 0 -}}
{{- $faults = append $faults "config sets a port to 0, which means any free port: a Service needs a fixed port." -}}
{{- end -}}
{{- $ports = append $ports . -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.existingConfigMap.name) (has (dig "server" "host" "127.0.0.1" .Values.config) (list "127.0.0.1" "localhost" "::1")) -}}
{{- $faults = append $faults "config.server.host is a loopback address, which callers outside the pod cannot reach. Use 0.0.0.0, or \"::\" if pods have only IPv6." -}}
{{- end -}}
{{- $limit := include "warmgate.mebibytes" (dig "limits" "memory" "" .Values.resources) -}}
{{- if $limit -}}
{{- $bytes := addf (dig "index" "max_bytes" 268435456 .Values.config) (dig "kv_events" "max_bytes" 1073741824 .Values.config) -}}
{{- $needed := add 128 (divf $bytes 1048576 | ceil | int) -}}
{{- if lt ($limit | int) $needed -}}
{{- $faults = append $faults (printf "resources.limits.memory is %s MiB, but config.index.max_bytes, config.kv_events.max_bytes and 128 MiB for the process amount to %d MiB." $limit $needed) -}}
{{- end -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "warmgate.faultsOfAccess" -}}
{{- $faults := list -}}
{{- if .Values.valkey.enabled -}}
{{- range tuple "WARMGATE_STORE__URL" "VALKEY_PASSWORD" -}}
{{- if hasKey $.Values.secrets.env . -}}
{{- $faults = append $faults (printf "secrets.env.%s cannot be combined with valkey.enabled, which sets the same variable." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.ingress.preset "alb" -}}
{{- $keepAlive := dig "server" "keep_alive_s" 75 .Values.config | int -}}
{{- if le $keepAlive (.Values.ingress.alb.idleTimeoutSeconds | int) -}}
{{- $faults = append $faults (printf "config.server.keep_alive_s is %d, which is not above ingress.alb.idleTimeoutSeconds: the load balancer would reuse connections that the gateway is closing, and answer 502." $keepAlive) -}}
{{- end -}}
{{- with .Values.ingress.alb.deregistrationDelaySeconds -}}
{{- if lt (int .) (include "warmgate.stopSeconds" $ | int) -}}
{{- $faults = append $faults (printf "ingress.alb.deregistrationDelaySeconds is %d, less than the %s s that a pod can take to stop: the load balancer would cut off streams." (int .) (include "warmgate.stopSeconds" $)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "warmgate.isPicker" .) .Values.ingress.enabled -}}
{{- $faults = append $faults "ingress.enabled cannot be combined with mode picker: callers use the Gateway, whose HTTPRoute names the InferencePool." -}}
{{- end -}}
{{- if .Values.inferencePool.create -}}
{{- if not (include "warmgate.isPicker" .) -}}
{{- $faults = append $faults "inferencePool.create requires mode picker: the pool names the pods of this release as its picker." -}}
{{- end -}}
{{- if not .Values.inferencePool.selector -}}
{{- $faults = append $faults "inferencePool.selector is empty: set the labels of the model servers." -}}
{{- end -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- $faults = append $faults "httpRoute.parentRefs is empty: name at least one Gateway." -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.podMonitor.selector) -}}
{{- $faults = append $faults "podMonitor.selector is empty, and would select every pod: set the labels of the model servers." -}}
{{- end -}}
{{- if and .Values.externalSecrets.enabled (not .Values.externalSecrets.store.name) -}}
{{- $faults = append $faults "externalSecrets.store.name is empty: name the secret store." -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.enginePorts) -}}
{{- range $number, $model := .Values.config.models -}}
{{- if $model.workers_file -}}
{{- $faults = append $faults (printf "networkPolicy.enginePorts is empty, and config.models[%d].workers_file is a file that the chart cannot read: list the ports of the workers." $number) -}}
{{- end -}}
{{- range list "service" "pods" "inference_pool" "dns" -}}
{{- $found := get $model . -}}
{{- if and $found (not (regexMatch "^[0-9]+$" (toString (get $found "port")))) -}}
{{- $faults = append $faults (printf "networkPolicy.enginePorts is empty, and config.models[%d].%s has no numeric port: list the ports of the workers." $number .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "warmgate.asksKubernetes" .) (eq (toString .Values.serviceAccount.automount) "false") -}}
{{- $faults = append $faults "serviceAccount.automount is false, but finding workers in Kubernetes requires a service account token." -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{/* Whether a variable may set the store, whose value the chart cannot see. */}}
{{- define "warmgate.hasStoreVariable" -}}
{{- if .Values.secrets.envFrom }}true{{ end -}}
{{- if hasKey .Values.secrets.env "WARMGATE_STORE__URL" }}true{{ end -}}
{{- range .Values.extraEnv }}{{ if eq .name "WARMGATE_STORE__URL" }}true{{ end }}{{ end -}}
{{- end -}}

{{- define "warmgate.hasDisruptionBudget" -}}
{{- $enabled := .Values.podDisruptionBudget.enabled -}}
{{- if kindIs "invalid" $enabled -}}
{{- if gt (include "warmgate.leastReplicas" . | int) 1 }}true{{ end -}}
{{- else if $enabled -}}true
{{- end -}}
{{- end -}}
