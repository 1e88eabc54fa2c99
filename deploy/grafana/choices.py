"""Dashboard variables for gateways, and the label selectors that use the variables."""

from deploy.grafana.dashboard import Choice

GATEWAYS = 'namespace=~"$namespace",job=~"$job"'
"""Selector of the chosen gateways. Prometheus Operator sets both labels. Without them, choose All."""
OF_MODEL = f'{GATEWAYS},model=~"$model"'

NAMESPACE = Choice("namespace", "warmgate_index_max_bytes", "Namespace")
JOB = Choice("job", 'warmgate_index_max_bytes{namespace=~"$namespace"}', "Gateways")
MODEL = Choice("model", f"warmgate_policy_effective{{{GATEWAYS}}}", "Model")
TEAM = Choice("team", f"warmgate_team_requests_total{{{GATEWAYS}}}", "Team")
