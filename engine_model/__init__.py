"""Scheduler, KV cache and timing of one model server, as objects that get the time as an argument and do no I/O."""
