"""`python -m deploy.grafana`: writes the files that the chart ships."""

from deploy.grafana.written import write

write()
