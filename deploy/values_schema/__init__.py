"""`python -m deploy.values_schema`: update the Helm chart's values.schema.json from the settings."""
