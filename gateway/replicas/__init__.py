"""Replicas of the gateway that agree: what each has given to workers counts in all of them. See README.md."""
