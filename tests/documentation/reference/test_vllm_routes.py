from documentation.reference.vllm_routes import ROUTES
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.endpoints.unserved import INSTEAD


def test_every_endpoint_and_every_refusal_is_in_the_table() -> None:
    """tests/e2e/test_surface.py asks each of them."""
    paths = {route.partition(" ")[2] for route, _ in ROUTES}

    assert set() == (ENDPOINTS.keys() | INSTEAD.keys()) - paths


def test_no_route_is_listed_twice() -> None:
    assert len(ROUTES) == len({route for route, _ in ROUTES})
