"""Property tests take the time they need, and the same examples on every run: `make fuzz` is where luck may decide."""

from hypothesis import HealthCheck, settings

from tests.storage import durable_redis_server, redis_server, redis_servers

__all__ = ["durable_redis_server", "redis_server", "redis_servers"]

settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
