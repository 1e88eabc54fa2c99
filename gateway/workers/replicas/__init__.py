"""Replicas of the gateway that share the load of workers. See README.md."""
