"""Routes: names that stand for several models, for canaries, A/B tests, and rules by properties of requests."""
