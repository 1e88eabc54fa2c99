"""Whatever an administrator sends to `/admin/v1`: no 500, errors in OpenAI's shape, and no secret but where it is made.

Beside it, any order of good requests against a dictionary that does what they say.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gateway.api.admin_v1.parts import AdminGateway
from gateway.app.mapping.surroundings import configured_models
from gateway.app.mapping.workers import model_workers
from gateway.settings import build
from gateway.telemetry.reloads import Reloaded
from tests.fakes.backends import Answers
from tests.fuzz.bodies import numbers, texts, values
from tests.gateway.api.admin_v1.administration import Administration, administration
from tests.gateway.examples import a_draining, a_model, the_models

unhurried = settings(deadline=None)
SETTINGS = build({"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}]}, {})
NAMES = ["blue", "red", "ci", "k1"]

TEAM: dict[str, Any] = {
    "name": "blue",
    "weight": 2.5,
    "priority": "high",
    "models": ["tiny", "gpt-4*"],
    "strategies": ["kv_aware"],
    "fallback": False,
    "ttft_s": 0.5,
    "blocked": True,
    "isolated_cache": True,
    "projects": ["search"],
    "limits": {"requests_per_minute": 600, "usd_per_month": 100.0},
    "model_limits": {"tiny": {"concurrent": 3}},
}
KEY: dict[str, Any] = {
    "team": "blue",
    "id": "ci",
    "project": "search",
    "networks": ["10.0.0.0/8"],
    "expires_at": "2030-01-01T00:00:00Z",
    "weight": 1,
    "limits": {"tokens_per_day": 5},
}
WORKER: dict[str, Any] = {"model": "tiny", "url": "http://10.0.0.7:8000", "id": "w7"}
VALID: list[dict[str, Any]] = [TEAM, KEY, {"grace_s": 60}, {"worker": "a", "model": "tiny"}, WORKER, {}]


class Fuzzed:
    """The application in a loop of its own, with a gateway whose configuration is never any good."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.secrets: set[str] = set()
        self.admin = self.runner.run(self._open())

    async def _open(self) -> Administration:
        async def reload() -> Reloaded:
            return Reloaded("refused", ("no good.",))

        models = the_models(a_model(Answers(), name="tiny"))
        gateway = AdminGateway(models, lambda: configured_models(SETTINGS), reload, draining=a_draining(models))
        return await self.stack.enter_async_context(
            administration(gateway=gateway, listed=model_workers(SETTINGS.models))
        )

    def close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def ask(self, method: str, path: str, content: bytes = b"", **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with self.admin.client() as client:
                encoded = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
                return await client.request(method, path, content=content, headers=encoded)

        return self.runner.run(ask())


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Fuzzed]:
    made = Fuzzed()
    yield made
    made.close()


def described(admin: Administration, response: httpx.Response) -> Any:
    """The type that a good answer is described to be of; None: it is no JSON."""
    path = response.request.url.path
    for route in admin.api.state.routes:
        if response.request.method in route.methods and route.path_regex.match(path):
            return route.response_model
    return None


def check(admin: Administration, response: httpx.Response) -> None:
    assert response.status_code < 500, response.text
    if response.is_success and (kind := described(admin, response)) is not None:
        TypeAdapter(kind).validate_json(response.content)
    if response.status_code >= 400:
        error = response.json()["error"]
        assert {"message", "type", "param", "code"} == error.keys()
        assert len(error["message"]) < 2000
    if "secret" in response.text and response.headers["content-type"] == "application/json":
        reported = response.json()
        assert (
            response.status_code >= 400 or "secret" not in reported or response.headers["cache-control"] == "no-store"
        )


segments = st.sampled_from(NAMES) | st.text(min_size=1, max_size=8).map(lambda text: quote(text, safe=""))
paths = st.one_of(
    st.sampled_from(
        [
            *("/teams", "/keys", "/usage", "/usage/users", "/usage/records", "/usage/export", "/audit", "/models"),
            *("/workers", "/workers/drain", "/workers/undrain", "/reload", "/openapi.json"),
        ]
    ),
    segments.map("/teams/{}".format),
    segments.map("/keys/{}".format),
    segments.map("/keys/{}/rotate".format),
)
parameters = st.sampled_from(
    [
        *("limit", "after", "team", "key", "project", "model", "backend", "month", "from", "to", "group_by", "user"),
        *("outcome", "request_id", "format", "cascade", "x"),
    ]
)
scalars = st.sampled_from(
    ["", "1", "0", "-1", "blue", "2026-11", "2026-11-21", "9999-12-31", "0001-01-01", "true", "team,day", "csv", "W10"]
)
queries = st.lists(st.tuples(parameters, scalars | numbers | st.text(max_size=6)), max_size=4)
# ASGI servers pass what httptools lets through: no control characters.
header_texts = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=8)


@st.composite
def nearly_valid(draw: st.DrawFn) -> bytes:
    """A body that is right for something, with fields of another kind, missing, or from elsewhere."""
    body = dict(draw(st.sampled_from(VALID)))
    parts = {name: json.dumps(value) for name, value in body.items()}
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from([*TEAM, *KEY, "grace_s", "worker"]))
        match draw(st.sampled_from(["drop", "change", "borrow"])):
            case "drop":
                parts.pop(name, None)
            case "borrow":
                parts[name] = json.dumps({**TEAM, **KEY}.get(draw(st.sampled_from([*TEAM, *KEY]))))
            case _:
                parts[name] = draw(values)
    return ("{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in parts.items()) + "}").encode()


@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    path=paths,
    query=queries,
    body=st.one_of(st.just(b""), nearly_valid(), texts()),
    media=st.sampled_from(["application/json"] * 6 + ["application/merge-patch+json", "text/plain", ""]),
    idempotency_key=st.none() | header_texts,
)
@example("POST", "/teams", [], b'{"name": "blue", "limits": {"requests_per_minute": 1e400}}', "application/json", None)
@example("POST", "/keys", [], b'{"team": "blue", "expires_at": "9999-12-31T23:59:59-23:59"}', "application/json", None)
@example("PATCH", "/teams/blue", [], b'{"limits":' * 3000, "application/json", None)
@example("GET", "/usage/records", [("after", "W10")], b"", "application/json", None)
@example("GET", "/usage", [("month", "9999-12")], b"", "application/json", None)
@example("GET", "/teams", [("limit", "1" * 5000)], b"", "application/json", None)
@unhurried
def test_no_request_breaks_anything(
    fuzzed: Fuzzed,
    method: str,
    path: str,
    query: list[tuple[str, str]],
    body: bytes,
    media: str,
    idempotency_key: str | None,
) -> None:
    """Whatever stands in its path, its query, its headers and its body."""
    headers = {"content-type": media}
    if idempotency_key is not None:
        headers["idempotency-key"] = idempotency_key
    pairs = "&".join(f"{quote(name)}={quote(value, errors='surrogatepass')}" for name, value in query)
    response = fuzzed.ask(method, f"/admin/v1{path}?{pairs}", body, **headers)

    if method != "HEAD":
        check(fuzzed.admin, response)


# ---- any order of good requests

amounts = st.none() | st.integers(1, 10**15)
limits = st.fixed_dictionaries({}, optional={"requests_per_minute": amounts, "concurrent": amounts})
patches = st.fixed_dictionaries(
    {}, optional={"limits": limits, "blocked": st.booleans(), "priority": st.sampled_from(["low", "high"])}
)
steps = st.one_of(
    st.tuples(st.just("make team"), st.sampled_from("ab"), st.just({})),
    st.tuples(st.just("make key"), st.sampled_from("xyz"), st.sampled_from("ab").map(lambda team: {"team": team})),
    st.tuples(st.just("patch team"), st.sampled_from("ab"), patches),
    st.tuples(st.just("patch key"), st.sampled_from("xyz"), patches),
    st.tuples(st.just("delete team"), st.sampled_from("ab"), st.just({})),
    st.tuples(st.just("delete all of team"), st.sampled_from("ab"), st.just({})),
    st.tuples(st.just("delete key"), st.sampled_from("xyz"), st.just({})),
)
Things = dict[str, dict[str, Any]]


class Oracle:
    """What there should be: dictionaries of what was said of each."""

    def __init__(self) -> None:
        self.teams: Things = {}
        self.keys: Things = {}
        self.changes = 0

    def take(self, what: str, name: str, body: dict[str, Any]) -> int:
        """The status that the step is to be answered with, which it has had its effect."""
        before = (json.dumps(self.teams, sort_keys=True), json.dumps(self.keys, sort_keys=True))
        status = self._take(what, name, body)
        self.changes += before != (json.dumps(self.teams, sort_keys=True), json.dumps(self.keys, sort_keys=True))
        return status

    def _take(self, what: str, name: str, body: dict[str, Any]) -> int:
        things = self.teams if "team" in what else self.keys
        own = [key for key, said in self.keys.items() if said.get("team") == name]
        if what.startswith("make"):
            return self._make(things, name, body)
        if name not in things:
            return 404
        if what.startswith("patch"):
            _patch(things[name], body)
            return 200
        if what == "delete team" and own:
            return 409
        if "team" in what:
            self.keys = {key: said for key, said in self.keys.items() if key not in own}
        del things[name]
        return 204

    def _make(self, things: Things, name: str, body: dict[str, Any]) -> int:
        if "team" in body and body["team"] not in self.teams:
            return 404
        if name in things:
            return 409
        things[name] = {"limits": {}, "blocked": False, "priority": None if things is self.keys else "normal", **body}
        return 201


def _patch(said: dict[str, Any], body: dict[str, Any]) -> None:
    changed = {**said["limits"], **body.get("limits", {})}
    said.update(body | {"limits": {name: amount for name, amount in changed.items() if amount is not None}})


def request_for(what: str, name: str, body: dict[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
    kind = "teams" if "team" in what else "keys"
    if what.startswith("make"):
        return "POST", f"/{kind}", body | {"name" if kind == "teams" else "id": name}
    if what.startswith("patch"):
        return "PATCH", f"/{kind}/{name}", body
    return "DELETE", f"/{kind}/{name}" + ("?cascade=true" if "all" in what else ""), None


@given(st.lists(steps, max_size=25))
@unhurried
def test_any_order_of_changes_comes_to_what_they_say(taken: list[tuple[str, str, dict[str, Any]]]) -> None:
    """Each is answered as it should be; every one that changed something, and no other, is in the audit log."""

    async def play() -> None:
        oracle = Oracle()
        async with administration() as admin:
            for what, name, body in taken:
                response = await admin.ask(*request_for(what, name, body))
                assert oracle.take(what, name, body) == response.status_code, (what, name, response.text)
            teams = {team["name"]: team for team in (await admin.get("/teams"))["data"]}
            keys = {key["id"]: key for key in (await admin.get("/keys"))["data"]}
            assert oracle.changes == len(await admin.audited())
        for expected, found in ((oracle.teams, teams), (oracle.keys, keys)):
            assert expected.keys() == found.keys()
            for name, said in expected.items():
                assert said == {field: found[name][field] for field in said}

    asyncio.run(play())
