{{/*
For ingress-nginx. Nothing is buffered, in either direction: a stream reaches its reader event by event. Bodies may be as
large as the gateway takes them; an answer may take as long as the gateway waits for a worker.
*/}}
{{- define "warmgate.nginxAnnotations" -}}
{{- $total := dig "timeouts" "total_s" 1800 .Values.config | float64 | ceil | int -}}
nginx.ingress.kubernetes.io/proxy-body-size: {{ dig "server" "max_body_bytes" (include "warmgate.maxBodyBytes" . | int) .Values.config | int | quote }}
nginx.ingress.kubernetes.io/proxy-buffering: "off"
nginx.ingress.kubernetes.io/proxy-request-buffering: "off"
nginx.ingress.kubernetes.io/proxy-read-timeout: {{ $total | quote }}
nginx.ingress.kubernetes.io/proxy-send-timeout: {{ $total | quote }}
{{- end -}}

{{/* The default of server.max_body_bytes. */}}
{{- define "warmgate.maxBodyBytes" -}}
8388608
{{- end -}}
