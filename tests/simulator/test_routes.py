from typing import Any

import pytest

from simulator.errors import ApiError
from simulator.exchange import HttpExchange
from simulator.routes import Routes


async def show(exchange: HttpExchange) -> None:
    raise AssertionError


async def cancel(exchange: HttpExchange) -> None:
    raise AssertionError


ROUTES = Routes({"/a": {"GET": show}, "/a/{id}": {"GET": show}, "/a/{id}/cancel": {"POST": cancel}})


def exchange(method: str, path: str) -> HttpExchange:
    async def unused(*_: Any) -> Any:
        raise AssertionError

    return HttpExchange({"method": method, "path": path, "headers": [], "state": {"connection": None}}, unused, unused)


@pytest.mark.parametrize(
    ("method", "path", "handler", "named"),
    [
        ("GET", "/a", show, ""),
        ("GET", "/a/r.1", show, "r.1"),
        ("POST", "/a/r.1/cancel", cancel, "r.1"),
    ],
)
def test_a_path_is_found(method: str, path: str, handler: Any, named: str) -> None:
    request = exchange(method, path)

    assert handler is ROUTES.handler(request)
    assert named == request.named_in_path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/b", 404), ("GET", "/a/b/c", 404), ("GET", "/a/", 404), ("POST", "/a", 405), ("GET", "/a/b/cancel", 405)],
)
def test_what_is_not_there(method: str, path: str, status: int) -> None:
    """An unknown path is 404, a wrong method 405."""
    with pytest.raises(ApiError) as caught:
        ROUTES.handler(exchange(method, path))

    assert status == caught.value.status
