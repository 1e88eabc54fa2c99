"""`python -m deploy.values_schema`: bring the chart's values.schema.json up to date with the settings."""
