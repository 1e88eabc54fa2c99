"""Fallback backends (other endpoints and Bedrock), which answer when a model's workers cannot, within rates and
budgets.
"""
