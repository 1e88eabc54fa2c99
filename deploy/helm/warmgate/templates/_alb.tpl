{{/*
Annotations for the AWS Load Balancer Controller. The load balancer sends HTTP/1.1 to the pods, because Warmgate does not
support HTTP/2. It chooses the pod with the least outstanding requests, because answers of LLMs differ much in length.
*/}}
{{- define "warmgate.albAnnotations" -}}
{{- $alb := .Values.ingress.alb -}}
{{- $delay := include "warmgate.stopSeconds" . | int -}}
{{- if not (kindIs "invalid" $alb.deregistrationDelaySeconds) -}}
{{- $delay = $alb.deregistrationDelaySeconds | int -}}
{{- end -}}
alb.ingress.kubernetes.io/scheme: {{ $alb.scheme }}
alb.ingress.kubernetes.io/target-type: ip
alb.ingress.kubernetes.io/backend-protocol: HTTP
alb.ingress.kubernetes.io/backend-protocol-version: HTTP1
alb.ingress.kubernetes.io/healthcheck-path: /readyz
alb.ingress.kubernetes.io/healthcheck-port: {{ include "warmgate.ownProbesPort" . | default "traffic-port" | quote }}
alb.ingress.kubernetes.io/healthcheck-interval-seconds: {{ $alb.healthcheckIntervalSeconds | quote }}
alb.ingress.kubernetes.io/healthcheck-timeout-seconds: "5"
alb.ingress.kubernetes.io/healthy-threshold-count: "2"
alb.ingress.kubernetes.io/unhealthy-threshold-count: "2"
alb.ingress.kubernetes.io/success-codes: "200"
alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds={{ $alb.idleTimeoutSeconds }}
alb.ingress.kubernetes.io/target-group-attributes: deregistration_delay.timeout_seconds={{ $delay }},load_balancing.algorithm.type=least_outstanding_requests
{{- if $alb.certificateArn }}
alb.ingress.kubernetes.io/certificate-arn: {{ $alb.certificateArn }}
alb.ingress.kubernetes.io/listen-ports: '[{"HTTP": 80}, {"HTTPS": 443}]'
alb.ingress.kubernetes.io/ssl-redirect: "443"
{{- end }}
{{- with $alb.groupName }}
alb.ingress.kubernetes.io/group.name: {{ . }}
{{- end }}
{{- with $alb.wafAclArn }}
alb.ingress.kubernetes.io/wafv2-acl-arn: {{ . }}
{{- end }}
{{- with $alb.securityGroups }}
alb.ingress.kubernetes.io/security-groups: {{ . }}
{{- end }}
{{- end -}}
