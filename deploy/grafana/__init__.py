"""Writes the dashboards that the chart ships, as plain JSON: `python -m deploy.grafana`. None is made at run time."""
