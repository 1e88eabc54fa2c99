"""What answers when a model's own workers cannot: other endpoints and Bedrock, within rates and budgets."""
