"""Workloads that others have published gains on, with round robin beside ours: what is gained here, and at what cost.

Three run in virtual time on the objects that route in production, through `benchmarks.replay`; the fourth is the real
gateway over HTTP, with a thousand users of locust before it.
"""
