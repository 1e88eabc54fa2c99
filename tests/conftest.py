"""Property tests take the time they need, and the same examples on every run: `make fuzz` is where luck may decide."""

from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
