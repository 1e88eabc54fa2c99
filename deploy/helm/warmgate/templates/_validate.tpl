{{/*
What a schema cannot say: values that are good alone and not together. Every sentence begins with the value to change.
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
{{- $faults = append $faults "config.models is empty: say which models there are, and where their workers are." -}}
{{- end -}}
{{- range splitList "\n" (include "warmgate.plainSecrets" (dict "place" "config" "node" .Values.config)) -}}
{{- if . -}}
{{- $faults = append $faults (printf "%s is a secret in plain text: name a Secret below `secrets` instead (a key has secret_env; WARMGATE_... variables in secrets.env set the others)." .) -}}
{{- end -}}
{{- end -}}
{{- $url := dig "store" "url" "" .Values.config | default "" -}}
{{- if regexMatch "://[^/@]*@|[?&]password=" $url -}}
{{- $faults = append $faults "config.store.url holds a password: put the address into a Secret, and name it in secrets.storeUrl." -}}
{{- end -}}
{{- if and $url (or .Values.valkey.enabled .Values.secrets.storeUrl.name) -}}
{{- $faults = append $faults "config.store.url stands beside valkey.enabled or secrets.storeUrl: there is one store." -}}
{{- end -}}
{{- if and .Values.valkey.enabled .Values.secrets.storeUrl.name -}}
{{- $faults = append $faults "valkey.enabled stands beside secrets.storeUrl: there is one store." -}}
{{- end -}}
{{- if not .Values.secrets.envFrom -}}
{{- $given := keys .Values.secrets.env -}}
{{- range .Values.extraEnv }}{{ $given = append $given .name }}{{ end -}}
{{- range splitList "\n" (include "warmgate.secretEnvs" (dict "node" .Values.config)) | uniq -}}
{{- if and . (not (has . $given)) -}}
{{- $faults = append $faults (printf "secrets.env has no %s, which config names with secret_env." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.valkey.enabled (not $own) -}}
{{- $faults = append $faults "valkey.enabled has no effect beside existingConfigMap: say store.url there." -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "warmgate.faultsOfScale" -}}
{{- $faults := list -}}
{{- $least := include "warmgate.leastReplicas" . | int -}}
{{- $most := include "warmgate.mostReplicas" . | int -}}
{{- if and .Values.autoscaling.enabled .Values.keda.enabled -}}
{{- $faults = append $faults "keda.enabled stands beside autoscaling.enabled: two scalers would pull at the same Deployment." -}}
{{- end -}}
{{- if gt $least $most -}}
{{- $faults = append $faults (printf "%s.minReplicas is above maxReplicas." (ternary "keda" "autoscaling" .Values.keda.enabled)) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.targetCPUUtilizationPercentage) (not .Values.autoscaling.targetInFlight) -}}
{{- $faults = append $faults "autoscaling.enabled has no target: give targetCPUUtilizationPercentage or targetInFlight." -}}
{{- end -}}
{{- if and (or .Values.keda.enabled .Values.engineScaling) (not .Values.keda.serverAddress) -}}
{{- $faults = append $faults "keda.serverAddress is empty: where is Prometheus?" -}}
{{- end -}}
{{- if and (gt $most 1) (ne (include "warmgate.storeKind" .) "redis") (not (include "warmgate.hasStoreVariable" .)) -}}
{{- range splitList "\n" (include "warmgate.countedLimits" .) -}}
{{- if . -}}
{{- $faults = append $faults (printf "%s would be counted by each of %d replicas for itself, so all of them together would allow %d times as much: give a store in Redis (config.store.url, secrets.storeUrl), or replicaCount: 1." . $most $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (include "warmgate.storeKind" .) "sqlite" -}}
{{- if gt $most 1 -}}
{{- $faults = append $faults "replicaCount is above 1, and config.store.url is a file, which is for one gateway: use Redis." -}}
{{- end -}}
{{- if not .Values.persistence.enabled -}}
{{- $faults = append $faults "persistence.enabled is false, and config.store.url is a file: it would be lost with the pod." -}}
{{- end -}}
{{- end -}}
{{- if and .Values.persistence.enabled (gt $most 1) -}}
{{- $faults = append $faults "persistence.enabled is for one replica: its volume is that of one pod." -}}
{{- end -}}
{{- if and (include "warmgate.eventsPort" .) (gt $most 1) -}}
{{- $faults = append $faults "config.kv_events.bind is for one replica: an engine dials one of them, and the others would hear nothing. Let engines bind, and be dialled." -}}
{{- end -}}
{{- $available := .Values.podDisruptionBudget.minAvailable -}}
{{- if not (or (kindIs "invalid" $available) (kindIs "invalid" .Values.podDisruptionBudget.maxUnavailable)) -}}
{{- $faults = append $faults "podDisruptionBudget.minAvailable stands beside maxUnavailable: Kubernetes takes one of them." -}}
{{- end -}}
{{- if and (include "warmgate.hasDisruptionBudget" .) (not (kindIs "invalid" $available)) -}}
{{- if or (eq (toString $available) "100%") (and (not (kindIs "string" $available)) (ge (int $available) $least)) -}}
{{- $faults = append $faults "podDisruptionBudget.minAvailable is as many as there are: no node could ever be drained." -}}
{{- end -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "warmgate.faultsOfPod" -}}
{{- $faults := list -}}
{{- if not .Values.image.repository -}}
{{- $faults = append $faults "image.repository is empty, and there is no public image: build one from the Dockerfile, push it, and name its repository here." -}}
{{- end -}}
{{- $stop := include "warmgate.stopSeconds" . | int -}}
{{- $grace := include "warmgate.graceSeconds" . | int -}}
{{- if lt $grace $stop -}}
{{- $faults = append $faults (printf "terminationGracePeriodSeconds is %d, less than preStopSleepSeconds, config.server.stop_delay_s and config.server.shutdown_grace_s together (%d): streams would be cut." $grace $stop) -}}
{{- end -}}
{{- $ports := list -}}
{{- range list (include "warmgate.httpPort" .) (include "warmgate.ownProbesPort" .) (include "warmgate.adminPort" .) (include "warmgate.eventsPort" .) -}}
{{- if . -}}
{{- if has . $ports -}}
{{- $faults = append $faults (printf "config uses port %s twice: server.port, server.probes_port, admin.port and kv_events.bind each need their own." .) -}}
{{- else if eq (int .) 0 -}}
{{- $faults = append $faults "config asks for port 0, any free one: a Service cannot lead to that." -}}
{{- end -}}
{{- $ports = append $ports . -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.existingConfigMap.name) (has (dig "server" "host" "127.0.0.1" .Values.config) (list "127.0.0.1" "localhost" "::1")) -}}
{{- $faults = append $faults "config.server.host is the pod's own, which callers cannot reach. Use 0.0.0.0, or \"::\" where pods have IPv6 only." -}}
{{- end -}}
{{- $limit := include "warmgate.mebibytes" (dig "limits" "memory" "" .Values.resources) -}}
{{- if $limit -}}
{{- $bytes := addf (dig "index" "max_bytes" 268435456 .Values.config) (dig "kv_events" "max_bytes" 1073741824 .Values.config) -}}
{{- $needed := add 128 (divf $bytes 1048576 | ceil | int) -}}
{{- if lt ($limit | int) $needed -}}
{{- $faults = append $faults (printf "resources.limits.memory is %s MiB: config.index.max_bytes, config.kv_events.max_bytes and 128 MiB for the process come to %d MiB." $limit $needed) -}}
{{- end -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "warmgate.faultsOfAccess" -}}
{{- $faults := list -}}
{{- if .Values.valkey.enabled -}}
{{- range tuple "WARMGATE_STORE__URL" "VALKEY_PASSWORD" -}}
{{- if hasKey $.Values.secrets.env . -}}
{{- $faults = append $faults (printf "secrets.env.%s stands beside valkey.enabled, which sets that variable." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.ingress.preset "alb" -}}
{{- $keepAlive := dig "server" "keep_alive_s" 75 .Values.config | int -}}
{{- if le $keepAlive (.Values.ingress.alb.idleTimeoutSeconds | int) -}}
{{- $faults = append $faults (printf "config.server.keep_alive_s is %d, not above ingress.alb.idleTimeoutSeconds: the load balancer would send requests on connections that are being closed, and answer 502." $keepAlive) -}}
{{- end -}}
{{- with .Values.ingress.alb.deregistrationDelaySeconds -}}
{{- if lt (int .) (include "warmgate.stopSeconds" $ | int) -}}
{{- $faults = append $faults (printf "ingress.alb.deregistrationDelaySeconds is %d, less than a stop may take (%s s): the load balancer would cut streams." (int .) (include "warmgate.stopSeconds" $)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- $faults = append $faults "httpRoute.parentRefs is empty: which Gateway?" -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.podMonitor.selector) -}}
{{- $faults = append $faults "podMonitor.selector is empty: it would select every pod." -}}
{{- end -}}
{{- if and .Values.externalSecrets.enabled (not .Values.externalSecrets.store.name) -}}
{{- $faults = append $faults "externalSecrets.store.name is empty: which store?" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.enginePorts) -}}
{{- range $number, $model := .Values.config.models -}}
{{- if $model.workers_file -}}
{{- $faults = append $faults (printf "networkPolicy.enginePorts is empty, and config.models[%d].workers_file does not tell the chart the ports of workers." $number) -}}
{{- end -}}
{{- range list "service" "pods" "dns" -}}
{{- $found := get $model . -}}
{{- if and $found (not (regexMatch "^[0-9]+$" (toString (get $found "port")))) -}}
{{- $faults = append $faults (printf "networkPolicy.enginePorts is empty, and config.models[%d].%s has no port as a number." $number .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "warmgate.asksKubernetes" .) (eq (toString .Values.serviceAccount.automount) "false") -}}
{{- $faults = append $faults "serviceAccount.automount is false, and config finds workers in Kubernetes, which wants a token." -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{/* The store may be named by a variable that the chart does not see. */}}
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
