"""`pytest tests/fuzz --hypothesis-profile=fuzz` looks for longer than a run of all tests can."""

from hypothesis import settings

settings.register_profile("fuzz", max_examples=10_000, print_blob=True)
