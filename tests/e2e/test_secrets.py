"""No secret is written or reported: a session with every kind of secret, and then a look at everything.

Looked at are stdout and stderr with debug logging, the request log, metrics, headers and bodies of all answers, the
admin API with audit, usage and exports, and the bytes of the store. A new secret is in the one answer that shows it.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.governed import chat
from tests.e2e.stack import quick
from tests.storage import RedisServers, free_port

DECLARED = "declared-secret-5b1e"
BY_VARIABLE = "secret-of-a-variable-77d0"
BY_DIGEST = "secret-known-by-its-digest-09ac"
OWNER = "owner-secret-3c9f"
VIEWER = "viewer-secret-of-a-variable-1d4b"
PEPPER = "pepper-of-the-digests-f00d"
OF_THE_WORKER = "key-of-the-worker-6e6e"
OF_THE_STORE = "password-of-the-store-41bb"
LATER = "secret-after-a-reload-c4c4"
FAULTY = "secret-in-a-faulty-file-8d8d"
WRONG = "wrong-secret-of-somebody-e5e5"
WRONG_MADE = "wg-stranger-" + "Q" * 43
PROMPT = "marked-prompt-2718281828"

ALL = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, str)}


@dataclass
class Session:
    """Asks, and remembers all answers."""

    gateway: GatewayProcess
    reported: list[tuple[str, bytes]] = field(default_factory=list)
    """What was asked, and headers and body of the answer."""

    async def ask(self, method: str, path: str, secret: str | None = None, **more: Any) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if secret is not None:
            headers["authorization"] = f"Bearer {secret}"
        response = await self.gateway.http.request(method, path, headers=headers, **more)
        reported = b"\n".join(b": ".join(each) for each in response.headers.raw) + b"\n\n" + response.content
        self.reported.append((f"{method} {path} {response.status_code}", reported))
        return response

    @property
    def answers(self) -> dict[str, bytes]:
        return {f"answer {i}, to {what}": reported for i, (what, reported) in enumerate(self.reported)}

    async def made(self, method: str, path: str, body: Any) -> tuple[str, str]:
        """Id and secret of a key: of the one answer that shows it, which is not remembered."""
        response = await self.ask(method, path, OWNER, json=body)
        assert response.is_success, response.text
        made = response.json()
        what, reported = self.reported.pop()
        assert 1 == reported.count(made["secret"].encode())
        self.reported.append((what, reported.replace(made["secret"].encode(), b"SHOWN")))
        return made["id"], made["secret"]


def settings(worker: str, store_url: str, **groups: Any) -> dict[str, Any]:
    return {
        "server": {"port": 0},
        "logging": {"level": "debug"},
        "models": [{"name": "tiny", "workers": [{"url": worker, "id": "w", "api_key": OF_THE_WORKER}]}],
        "retry": {"wait_s": 0.2},
        "store": {"url": store_url, "pepper": PEPPER},
        "admin": {
            "keys": [
                {"id": "root", "role": "owner", "secret": OWNER},
                {"id": "guest", "role": "viewer", "secret_env": "VIEWER_KEY"},
            ]
        },
        "teams": [
            {
                "name": "blue",
                "limits": {"requests_per_minute": 6000, "usd_per_month": 100},
                "keys": [
                    {"id": "declared", "secret": DECLARED},
                    {"id": "variable", "secret_env": "BLUE_KEY"},
                    {"id": "digest", "secret_sha256": hashlib.sha256(BY_DIGEST.encode()).hexdigest()},
                ],
            }
        ],
        **groups,
    }


async def requests(session: Session, secret: str) -> None:
    message = [{"role": "user", "content": PROMPT}]
    bodies: Mapping[str, dict[str, Any]] = {
        "/v1/chat/completions": {"messages": message, "max_tokens": 4, "user": "u-1"},
        "/v1/completions": {"prompt": PROMPT, "max_tokens": 4},
        "/v1/responses": {"input": PROMPT, "max_output_tokens": 4},
        "/v1/messages": {"messages": message, "max_tokens": 4},
        "/v1/embeddings": {"input": PROMPT},
    }
    for path, body in bodies.items():
        for more in ({}, {"stream": True}) if path != "/v1/embeddings" else ({},):
            assert 200 == (await session.ask("POST", path, secret, json={"model": "tiny", **body, **more})).status_code
        await session.ask("POST", path, secret, json={**body, "model": "unknown"})
        await session.ask("POST", path, secret, content=f'{{"model": "tiny", "{PROMPT}": "{PROMPT}')
        await session.ask("POST", path, secret, json={**body, "model": "tiny", "stream": PROMPT, "max_tokens": PROMPT})
        await session.ask("POST", path, secret, json={"model": "tiny", "messages": PROMPT, "prompt": {"a": PROMPT}})


async def refused(session: Session) -> None:
    """Wrong secrets in every place where one is looked for, and right ones where they do not belong."""
    chats = "/v1/chat/completions"
    for secret in (WRONG, WRONG_MADE, OWNER, VIEWER, PEPPER, OF_THE_WORKER):
        assert 401 == (await session.ask("POST", chats, secret, json=chat(PROMPT))).status_code
    for headers in (
        {"x-api-key": WRONG},
        {"api-key": WRONG},
        {"x-api-key": DECLARED, "api-key": WRONG},
        {"authorization": f"Basic {WRONG}"},
        {"authorization": WRONG},
    ):
        assert 401 == (await session.ask("POST", chats, json=chat(PROMPT), headers=headers)).status_code
        assert 401 == (await session.ask("GET", "/v1/models", headers=headers)).status_code
    for secret in (WRONG, DECLARED):
        for method, path in (("GET", "/admin/v1/keys"), ("POST", "/admin/v1/keys"), ("GET", "/admin/v1/audit")):
            assert 401 == (await session.ask(method, path, secret, json={"team": WRONG})).status_code
    for secret in (WRONG, DECLARED):
        await session.ask("GET", "/admin/v1/workers", secret)
        await session.ask("POST", "/warmgate/explain", secret, json=chat(PROMPT))
    assert 403 == (await session.ask("POST", "/admin/v1/keys", VIEWER, json={"team": "blue"})).status_code
    # Anyone who sends a secret of his own, or one in a wrong field, does not see it again.
    for body in ({"team": "blue", "secret": WRONG}, {"team": "blue", "expires_at": WRONG}, {"team": {"a": WRONG}}):
        assert (await session.ask("POST", "/admin/v1/keys", OWNER, json=body)).status_code >= 400
    assert (await session.ask("POST", "/admin/v1/keys", OWNER, content=f'{{"secret": "{WRONG}')).status_code >= 400


async def administered(session: Session) -> None:
    """Everything that can be read, right to the end of a list."""
    for secret in (OWNER, VIEWER):
        for path in ("teams", "keys", "models", "workers", "audit", "usage", "usage/records", "openapi.json"):
            assert 200 == (await session.ask("GET", f"/admin/v1/{path}", secret)).status_code, path
        for kind in ("csv", "jsonl"):
            assert 200 == (await session.ask("GET", f"/admin/v1/usage/export?format={kind}", secret)).status_code
    for path in ("/metrics", "/readyz", "/livez", "/openapi.json"):
        await session.ask("GET", path, VIEWER)
    assert 200 == (await session.ask("POST", "/warmgate/explain", VIEWER, json=chat(PROMPT))).status_code
    assert 200 == (await session.ask("GET", "/v1/usage", DECLARED)).status_code


@asynccontextmanager
async def whole_session(folder: Path, store_url: str) -> AsyncIterator[tuple[Session, dict[str, str]]]:
    """Yields what was reported and all that is secret while the gateway still runs; then it ends without an error."""
    secret = dict(ALL)
    async with AsyncExitStack() as exits:
        worker = await exits.enter_async_context(serving(quick()))
        variables = {"BLUE_KEY": BY_VARIABLE, "VIEWER_KEY": VIEWER}
        first = settings(worker, store_url)
        gateway = await exits.enter_async_context(gateway_process(folder, first, variables=variables))
        session = Session(gateway)
        await session.ask("POST", "/admin/v1/teams", OWNER, json={"name": "red"})
        key, secret["made"] = await session.made("POST", "/admin/v1/keys", {"team": "red"})
        for each in (DECLARED, BY_VARIABLE, BY_DIGEST, secret["made"]):
            await requests(session, each)
        _, secret["rotated"] = await session.made("POST", f"/admin/v1/keys/{key}/rotate", {"grace_s": 60})
        await requests(session, secret["made"])
        await requests(session, secret["rotated"])
        await session.ask("PATCH", f"/admin/v1/keys/{key}", OWNER, json={"blocked": True})
        assert 401 == (await session.ask("GET", "/v1/models", secret["rotated"])).status_code
        await refused(session)
        await reloaded(session, first)
        await failing(session, worker)
        await administered(session)
        assert 204 == (await session.ask("DELETE", f"/admin/v1/keys/{key}", OWNER)).status_code
        assert 401 == (await session.ask("GET", "/v1/models", secret["rotated"])).status_code
        await administered(session)
        yield session, secret


async def reloaded(session: Session, first: dict[str, Any]) -> None:
    """A new secret, then files that are refused for what stands beside a secret, or for the secret itself."""
    (blue,) = first["teams"]
    later = blue | {"keys": [{"id": "declared", "secret": LATER}]}
    session.gateway.configure(first | {"teams": [later]})
    await session.gateway.reload()
    assert 200 == (await session.ask("GET", "/v1/models", LATER)).status_code
    faulty: list[Any] = [
        [{"id": "x", "secret": [FAULTY]}],
        [{"id": "x", "secret": FAULTY, "secret_sha256": FAULTY}],
        [{"id": "x", "secret": f"{FAULTY} with a space"}],
        [{"id": "x", "secret": FAULTY}, {"id": "y", "secret": FAULTY}],
        [{"id": "x", "secert": FAULTY}],
        [{"id": "x", "secret_env": FAULTY}],
        [FAULTY],
        FAULTY,
        {"secret": FAULTY},
    ]
    for keys in faulty:
        session.gateway.configure(first | {"teams": [blue | {"keys": keys}]})
        await session.gateway.reload("refused")
    for group in ({"admin": FAULTY}, {"admin": {"keys": FAULTY}}, {"store": FAULTY}, {"store": {"pepper": [FAULTY]}}):
        session.gateway.configure(first | group)
        await session.gateway.reload("refused")
    for text in DECODE_ERRORS:
        session.gateway.configure(text)
        await session.gateway.reload("refused")
    session.gateway.configure(first)
    await session.gateway.reload()


async def failing(session: Session, worker: str) -> None:
    """The worker refuses, breaks off, and says too much."""
    async with httpx.AsyncClient(base_url=worker, timeout=60, verify=False) as control:
        for fault in (
            {"mode": "status", "status": 401},
            {"mode": "status", "status": 400},
            {"mode": "status", "status": 500},
            {"mode": "abort_mid_stream"},
            {"mode": "refuse"},
        ):
            assert 200 == (await control.post("/control/faults", json=fault)).status_code
            for stream in (False, True):
                body = chat(PROMPT, stream=stream)
                await session.ask("POST", "/v1/chat/completions", DECLARED, json=body)
        await control.post("/control/faults", json={"mode": "none"})
    async with asyncio.timeout(60):
        while (await session.ask("POST", "/v1/chat/completions", DECLARED, json=chat(PROMPT))).status_code != 200:
            await asyncio.sleep(0.05)


DECODE_ERRORS = (
    f'teams: [{{keys: [{{secret: "{FAULTY}',
    f"teams:\n- keys:\n  - secret: {FAULTY}: {FAULTY}\n",
    f"teams:\n- secret: {FAULTY}\n  secret: {FAULTY}\n",
    f"teams: &{FAULTY}\n- *{FAULTY}-x\n",
    f"teams: !{FAULTY} x\n",
    f"\tteams: {FAULTY}\n",
    f"{FAULTY}\n",
    f"secret: '{FAULTY}\x00'\n",
)
"""No YAML, or not ours: a parser's message would quote the line."""


def spellings(value: str) -> Iterator[bytes]:
    yield value.encode()
    digest = hashlib.sha256(value.encode())
    yield digest.digest()
    yield digest.hexdigest().encode()


def files(folder: Path, pattern: str) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.glob(pattern)}


def found_in(places: Mapping[str, bytes], secret: Mapping[str, str]) -> list[str]:
    return [
        f"{name} in {place}"
        for place, data in places.items()
        for name, value in secret.items()
        if any(spelling in data for spelling in spellings(value))
    ]


def test_what_is_looked_for_is_found() -> None:
    """The search is worth something."""
    data = b"..." + hashlib.sha256(OWNER.encode()).hexdigest().encode() + PROMPT.encode()

    assert ["OWNER in a", "PROMPT in a"] == sorted(found_in({"a": data, "b": b""}, ALL))


async def test_nothing_secret_leaves_a_gateway_with_a_file(tmp_path: Path) -> None:
    """Looked at while it runs, for what SQLite keeps beside the file, and after the end."""
    file = tmp_path / "warmgate.db"
    async with whole_session(tmp_path, f"sqlite:///{file}") as (session, secret):
        running = files(tmp_path, "warmgate.db*")
    ended = {f"{name} at the end": data for name, data in files(tmp_path, "warmgate.db*").items()}

    said = session.gateway.said()
    assert b'"event":"request"' in said
    assert any(b"marked" not in data and b"blue" in data for data in ended.values())
    assert [] == found_in({**running, **ended, "stdout and stderr": said, **session.answers}, secret)


@pytest.mark.redis
async def test_nothing_secret_leaves_a_gateway_with_redis(redis_servers: RedisServers, tmp_path: Path) -> None:
    """All that was ever written to it is in its append-only file; its own password is nowhere either."""
    server = redis_servers.make(fsync="always", port=free_port())
    server.arguments = ("--requirepass", OF_THE_STORE)
    server.start()
    url = server.tcp_url.replace("://", f"://:{OF_THE_STORE}@")
    async with whole_session(tmp_path, url) as (session, secret):
        pass
    server.stop()
    written = files(server.folder, "appendonlydir/*")

    assert any(b"blue" in data for data in written.values())
    assert [] == found_in({**written, "stdout and stderr": session.gateway.said(), **session.answers}, secret)
