"""Grafana dashboards of the Helm chart. `python -m deploy.grafana` writes the dashboards as JSON files."""
