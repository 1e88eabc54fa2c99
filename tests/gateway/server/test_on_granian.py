import pytest

from gateway.server import ServerError, serve
from tests.gateway.server.harness import create_app, settings


def test_it_takes_no_port_0() -> None:
    """It would not tell which one it got."""
    with pytest.raises(ServerError, match=r"server\.port 0 works with uvicorn only"):
        serve(settings(implementation="granian", port=0), create_app=create_app)
