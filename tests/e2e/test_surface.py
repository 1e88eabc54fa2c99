"""The table in docs/reference/routes.md that says the outcome of every route of vLLM, asked row by row."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.protocol.endpoints.endpoint import FORM
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.endpoints.unserved import INSTEAD
from tests.e2e.stack import Stack, stack
from tests.fuzz.bodies import FORM_BODY, FORM_TYPE, VALID

PAGE = Path(__file__).parents[2] / "docs/reference/routes.md"


def rows() -> list[tuple[str, str, str]]:
    """Method, path and what happens, of every route in the table."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- api -->")[2].partition("<!-- /api -->")[0]
    found: list[tuple[str, str, str]] = []
    for line in table.strip().splitlines()[2:]:
        routes, outcome = [cell.strip() for cell in line.strip("|").split("|")][:2]
        found += [(method, path, outcome) for method, path in re.findall(r"`(\w+) (\S+)`", routes)]
    return found


@pytest.fixture
async def running() -> AsyncIterator[Stack]:
    async with stack(1) as running:
        yield running


async def ask(running: Stack, method: str, path: str) -> httpx.Response:
    if "{id}" in path:
        made = await running.http.post("/v1/responses", json={"model": "tiny", "input": "Hi"})
        path = path.replace("{id}", made.json()["id"])
    endpoint = ENDPOINTS.get(path)
    if endpoint is not None and endpoint.media == FORM:
        headers = {"content-type": FORM_TYPE.decode()}
        return await running.http.post(path, content=FORM_BODY, headers=headers)
    body: dict[str, Any] | None = {"model": "tiny", **VALID[path][0]} if path in VALID else None
    headers = {"connection": "upgrade", "upgrade": "websocket"} if method == "WS" else {}
    return await running.http.request("GET" if method == "WS" else method, path, json=body, headers=headers)


def came_from_a_worker(response: httpx.Response, path: str) -> bool:
    """It says who answered; what is kept by a worker has the id for which it was asked."""
    if "{id}" in path:
        return response.status_code < 500 and "unknown_url" not in response.text
    return "x-warmgate-worker" in response.headers


async def test_every_row_is_true(running: Stack) -> None:
    """Passed on to a worker, answered by the gateway, or refused with a hint."""
    assert len(rows()) > 40
    for method, path, outcome in rows():
        response = await ask(running, method, path)
        if outcome == "passed on":
            assert came_from_a_worker(response, path), (path, response.text)
        elif outcome == "answered":
            assert response.status_code == 200, (path, response.text)
            assert "x-warmgate-worker" not in response.headers
        elif path in INSTEAD:
            assert "refused" == outcome
            error = response.json()["error"]
            is_anthropics = path.startswith("/v1/messages")
            assert ("not_found_error" if is_anthropics else "unknown_url") == error["type" if is_anthropics else "code"]
            assert 404 == response.status_code, path
            assert f"{path} is not served here: {INSTEAD[path]}" in response.json()["error"]["message"]
        else:
            assert "refused" == outcome
            assert 405 == response.status_code, path  # it looks like the id of a response, which is not to be posted


def test_no_endpoint_is_missing_in_the_table() -> None:
    """Whatever a worker answers through the gateway stands in it, and every hint."""
    named = {path for _, path, _ in rows()}

    assert set() == (set(ENDPOINTS) | set(INSTEAD)) - named
