"""Fallback backends (other endpoints and Bedrock). They answer when a model's workers cannot, within rate limits and
budgets.
"""
