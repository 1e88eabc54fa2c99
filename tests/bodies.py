"""What receives and reads bodies, as the gateway has it, for tests of one part."""

from gateway.proxy.bodies.bodies import Bodies
from gateway.proxy.bodies.budget import BodyBudget
from gateway.proxy.bodies.decoder import BodyDecoder


def bodies_up_to(max_body_bytes: int, *, max_bodies_bytes: int = 2**30) -> Bodies:
    """Bodies within the usual bounds, of up to *max_body_bytes*. Starts no process before a large one comes."""
    reader = BodyDecoder(max_values=300_000, max_cpu_s=10)
    return Bodies(max_body_bytes=max_body_bytes, budget=BodyBudget(max_bodies_bytes), reader=reader)
