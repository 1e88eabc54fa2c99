"""Fallbacks, which answer when a model's own workers cannot: other endpoints and Bedrock, within rates and budgets."""
