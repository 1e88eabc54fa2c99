"""Replays of recorded requests in virtual time: the objects that route in production before models of engines."""
