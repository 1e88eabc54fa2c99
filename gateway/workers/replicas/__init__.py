"""Gateway replicas that exchange the load of their shared workers. See README.md."""
