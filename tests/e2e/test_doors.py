"""What callers meet before a model is chosen: base URLs as people type them, web pages, methods, servers' headers."""

import asyncio

import httpx
import pytest

from tests.e2e.stack import Stack, quick, stack

PAGE = "https://chat.example.com"
CHAT = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
TEAMS = [{"name": "blue", "keys": [{"id": "k1", "secret": "sk-blue"}]}]
KEY = {"authorization": "Bearer sk-blue"}


async def paths_of(running: Stack) -> set[str]:
    """Those that the worker was asked for completions by."""
    return {request["path"] for request in await running.served(running.workers[0])}


@pytest.mark.parametrize(
    "path",
    [
        *["/v1/chat/completions", "/chat/completions", "//v1//chat/completions", "/v1/chat/completions/"],
        *["/v1/v1/chat/completions", "/v1/chat%2Fcompletions", "/%2Fchat/completions"],
    ],
)
async def test_a_base_url_may_be_typed_in_many_ways(path: str) -> None:
    """None of them passes by the key, the metrics or the log, and the worker is asked in one way."""
    async with stack(1, teams=TEAMS) as running:
        refused = await running.http.post(f"{running.url}{path}", json=CHAT)
        served = await running.http.post(f"{running.url}{path}", json=CHAT, headers=KEY)
        lines = await running.lines(2)

        assert [401, 200] == [refused.status_code, served.status_code]
        assert ["/v1/chat/completions"] * 2 == [line["path"] for line in lines]
        assert {"/v1/chat/completions"} == await paths_of(running)


@pytest.mark.parametrize("path", ["/models", "/v1/models/", "//v1/models", "/v1/v1/models", "/models/tiny"])
async def test_models_may_be_asked_for_in_as_many(path: str) -> None:
    """With a key."""
    async with stack(1, teams=TEAMS) as running:
        statuses = [
            (await running.http.get(f"{running.url}{path}", headers=headers)).status_code for headers in ({}, KEY)
        ]

        assert [401, 200] == statuses


async def test_administration_keeps_its_keys_however_its_path_is_written() -> None:
    """Doubled slashes lead to the same door."""
    admin = {"keys": [{"id": "root", "role": "owner", "secret": "adm-0123456789"}]}
    async with stack(1, teams=TEAMS, admin=admin) as running:
        statuses = {
            (await running.http.get(f"{running.url}{path}")).status_code
            for path in ("/admin/v1/teams", "//admin/v1/teams", "/admin//v1/teams/")
        }

        assert {401} == statuses


async def test_a_page_is_answered_before_it_has_shown_a_key() -> None:
    """Its preflight; then errors, whole answers and streams can be read by it."""
    asking = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    async with stack(1, teams=TEAMS, server={"cors_origins": [PAGE]}) as running:
        preflight = await running.http.options("/v1/chat/completions", headers=asking)
        error = await running.http.post("/v1/chat/completions", json=CHAT, headers={"origin": PAGE})
        whole = await running.http.post("/v1/chat/completions", json=CHAT, headers={**KEY, "origin": PAGE})
        stream = await running.http.post(
            "/v1/chat/completions", json={**CHAT, "stream": True}, headers={**KEY, "origin": PAGE}
        )
        other = await running.http.post(
            "/v1/chat/completions", json=CHAT, headers={**KEY, "origin": "https://a.example"}
        )

        assert [204, 401, 200, 200, 200] == [each.status_code for each in (preflight, error, whole, stream, other)]
        assert [PAGE] * 4 == [each.headers["access-control-allow-origin"] for each in (preflight, error, whole, stream)]
        assert "access-control-allow-origin" not in other.headers
        assert "authorization" == preflight.headers["access-control-allow-headers"]
        exposed = whole.headers["access-control-expose-headers"].split(", ")
        assert {"x-request-id", "x-warmgate-worker"} <= set(exposed)


async def test_a_page_that_may_ask_may_ask_an_open_gateway() -> None:
    """The origin is what was foreign; the host still has to be this machine."""
    page = {"origin": PAGE, "sec-fetch-site": "cross-site"}
    async with stack(1, server={"cors_origins": [PAGE]}) as running:
        allowed = await running.http.post("/v1/chat/completions", json=CHAT, headers=page)
        rebound = await running.http.post("/v1/chat/completions", json=CHAT, headers={**page, "host": "evil.example"})

        assert [200, 403] == [allowed.status_code, rebound.status_code]
        assert PAGE == rebound.headers["access-control-allow-origin"]


async def test_probes_are_asked_in_any_way() -> None:
    """HEAD as GET without a body, OPTIONS with what there is."""
    async with stack(1) as running:
        for path in ("/livez", "/readyz", "/health", "/ping", "/metrics", "/version", "/v1/models"):
            got, head, options = [await running.http.request(method, path) for method in ("GET", "HEAD", "OPTIONS")]

            assert (got.status_code, b"") == (head.status_code, head.content), path
            assert (204, "GET, HEAD, OPTIONS") == (options.status_code, options.headers["allow"]), path


async def test_an_answer_says_when_it_was_given_and_nothing_of_the_workers_server() -> None:
    """One date, and no `server`."""
    async with stack(1) as running:
        answers: list[httpx.Response] = [
            await running.http.post("/v1/chat/completions", json={**CHAT, "stream": stream}) for stream in (False, True)
        ]
        answers.append(await running.http.get("/livez"))

        assert [1] * 3 == [len(each.headers.get_list("date")) for each in answers]
        assert not any("server" in each.headers for each in answers)


async def test_a_large_answer_is_compressed_where_the_settings_ask_for_it() -> None:
    """For clients that take it; a stream never is."""
    body = {"model": "tiny", "input": ["hi"] * 50}
    zipping = {"accept-encoding": "gzip"}
    async with stack(1, server={"compress_min_bytes": 500}) as running:
        whole = await running.http.post("/v1/embeddings", json=body, headers=zipping)
        plain = await running.http.post("/v1/embeddings", json=body, headers={"accept-encoding": "identity"})
        stream = await running.http.post("/v1/chat/completions", json={**CHAT, "stream": True}, headers=zipping)

        assert ("gzip", "Accept-Encoding") == (whole.headers["content-encoding"], whole.headers["vary"])
        assert whole.json()["data"] == plain.json()["data"]
        assert int(whole.headers["content-length"]) < int(plain.headers["content-length"])
        assert "content-encoding" not in plain.headers
        assert "content-encoding" not in stream.headers


async def test_so_many_requests_are_served_at_once_and_no_more() -> None:
    """The next one learns when to come back, and a place that is left is free again."""
    options = quick(speed=1, tpot_ms=20)
    limits = {"max_concurrent_requests": 1}
    async with stack(1, options=options, server=limits) as running:
        long = {**CHAT, "stream": True, "max_tokens": 500}
        async with running.http.stream("POST", "/v1/chat/completions", json=long) as first:
            await anext(first.aiter_raw())
            refused = await running.http.post("/v1/chat/completions", json=CHAT)
        async with asyncio.timeout(60):
            while (await running.http.post("/v1/chat/completions", json=CHAT)).status_code == 503:
                await asyncio.sleep(0.02)

        error = refused.json()["error"]
        assert (503, "at_capacity", "service_unavailable_error") == (refused.status_code, error["code"], error["type"])
        assert "1" == refused.headers["retry-after"]
