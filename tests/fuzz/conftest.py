"""`pytest tests/fuzz --hypothesis-profile=fuzz` looks for longer than a run of all tests can, and by chance."""

from hypothesis import settings

settings.register_profile("fuzz", settings.get_profile("default"), max_examples=10_000, print_blob=True)
