"""`python -m deploy.grafana`: write the dashboards of the Helm chart."""

from deploy.grafana.written import write

write()
