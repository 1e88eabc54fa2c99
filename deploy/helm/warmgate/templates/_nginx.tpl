{{/*
Annotations for ingress-nginx. Nothing is buffered in either direction, so that a stream reaches its reader event by
event. The limits on body size and time are those of the gateway.
*/}}
{{- define "warmgate.nginxAnnotations" -}}
{{- $total := dig "timeouts" "total_s" 1800 .Values.config | float64 | ceil | int -}}
nginx.ingress.kubernetes.io/proxy-body-size: {{ dig "server" "max_body_bytes" (include "warmgate.maxBodyBytes" . | int) .Values.config | int | quote }}
nginx.ingress.kubernetes.io/proxy-buffering: "off"
nginx.ingress.kubernetes.io/proxy-request-buffering: "off"
nginx.ingress.kubernetes.io/proxy-read-timeout: {{ $total | quote }}
nginx.ingress.kubernetes.io/proxy-send-timeout: {{ $total | quote }}
{{- end -}}

{{/* Default of server.max_body_bytes. */}}
{{- define "warmgate.maxBodyBytes" -}}
8388608
{{- end -}}
