"""Gateway replicas that exchange the load on the workers that they share. See README.md."""
