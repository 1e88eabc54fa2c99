"""Names that stand for several models: canaries, A/B tests, and rules that look at the request."""
