"""Names that stand for several models, over simulated workers: canaries, A/B tests, rules."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from simulator.server import serving
from tests.e2e.governed import GATEWAY, Administration
from tests.e2e.stack import Stack, gateway, quick

TOKEN = "the-admins-own-token"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@asynccontextmanager
async def routed(*routes: dict[str, Any], **groups: Any) -> AsyncIterator[Stack]:
    """The models old, new and large, a worker each, remote, which has only a fallback, and *routes* to them."""
    async with contextlib.AsyncExitStack() as exits:
        urls = [await exits.enter_async_context(serving(quick())) for _ in range(3)]
        models: list[dict[str, Any]] = [
            {"name": name, "upstream_model": "tiny", "workers": [{"url": url, "id": name}]}
            for name, url in zip(("old", "new", "large"), urls, strict=True)
        ]
        away = {"openai": {"url": f"{urls[2]}/v1", "model": "tiny", "id": "elsewhere"}}
        models.append({"name": "remote", "fallbacks": [away]})
        settings = {"admin": {"keys": [{"role": "viewer", "secret": TOKEN}]}, **groups}
        yield await exits.enter_async_context(gateway(urls, models=models, routes=list(routes), **settings))


async def ask(stack: Stack, text: str = "hello", *, headers: dict[str, str] | None = None, **more: Any) -> Any:
    body = {"model": "chat", "max_tokens": 2, "messages": [{"role": "user", "content": text}], **more}
    return await stack.http.post("/v1/chat/completions", json=body, headers=headers)


async def test_a_canary_gets_its_share() -> None:
    canary = {"name": "chat", "to": [{"model": "old", "weight": 90}, {"model": "new", "weight": 10}]}
    async with routed(canary) as stack:
        answers = [await ask(stack) for _ in range(60)]
        got = Counter(answer.headers["x-warmgate-model"] for answer in answers)
        lines = await stack.lines(60)
        counted = await stack.metric("warmgate_route_requests_total")

        assert {200} == {answer.status_code for answer in answers}
        assert abs(got["new"] - 6) <= 1
        assert {"weight"} == {answer.headers["x-warmgate-rule"] for answer in answers}
        assert [answer.headers["x-warmgate-model"] for answer in answers] == [
            answer.headers["x-warmgate-worker"] for answer in answers
        ]
        assert got == Counter(line["model"] for line in lines)
        assert {("chat", "weight")} == {(line["route"], line["rule"]) for line in lines}
        assert got["new"] == counted['{model="new",route="chat",rule="weight"}']


async def test_an_end_user_keeps_its_variant() -> None:
    """Another user may have another one."""
    test = {"name": "chat", "sticky": "user", "to": [{"model": "old"}, {"model": "new"}]}
    async with routed(test) as stack:
        first = {f"u{i}": (await ask(stack, user=f"u{i}")).headers["x-warmgate-model"] for i in range(12)}
        again = {f"u{i}": (await ask(stack, user=f"u{i}")).headers["x-warmgate-model"] for i in range(12)}

        assert first == again
        assert {"old", "new"} == set(first.values())


async def test_the_size_of_a_request_picks_its_model() -> None:
    rules = [
        {"name": "long", "prompt_tokens_from": 500, "model": "large"},
        {"name": "pictures", "requires": ["images"], "model": "new"},
    ]
    async with routed({"name": "chat", "to": [{"model": "old"}], "rules": rules}) as stack:
        short, long = await ask(stack), await ask(stack, "word " * 1000)
        picture = await ask(stack, messages=[{"role": "user", "content": [PICTURE]}])

        assert [("old", "weight"), ("large", "long")] == [
            (answer.headers["x-warmgate-model"], answer.headers["x-warmgate-rule"]) for answer in (short, long)
        ]
        assert 200 == long.status_code
        assert ("new", "pictures") == (picture.headers["x-warmgate-model"], picture.headers["x-warmgate-rule"])
        assert {"long", "weight"} <= {line["rule"] for line in await stack.lines(3)}


async def test_a_long_prompt_goes_to_a_model_that_has_no_worker_here() -> None:
    """Only a fallback, as one that is on Bedrock alone: it is served there at once, and says so."""
    rules = [{"name": "long", "prompt_tokens_from": 500, "model": "remote"}]
    route = {"name": "chat", "to": [{"model": "old"}], "rules": rules}
    async with routed(route, retry={"wait_s": 120}) as stack, asyncio.timeout(60):
        short, long = await ask(stack), await ask(stack, "word " * 1000)

        assert [(200, "worker", "old"), (200, "openai", "elsewhere")] == [
            (each.status_code, each.headers["x-warmgate-backend"], each.headers["x-warmgate-worker"])
            for each in (short, long)
        ]
        assert ("remote", "long") == (long.headers["x-warmgate-model"], long.headers["x-warmgate-rule"])


async def test_explain_says_which_rule_and_which_variant() -> None:
    rules = [{"name": "long", "prompt_tokens_from": 500, "model": "large"}]
    route = {"name": "chat", "to": [{"model": "old", "weight": 3}, {"model": "new", "weight": 1}], "rules": rules}
    async with routed(route) as stack:

        async def explained(text: str) -> Any:
            body = {"model": "chat", "messages": [{"role": "user", "content": text}]}
            headers = {"authorization": f"Bearer {TOKEN}"}
            return (await stack.http.post("/warmgate/explain", json=body, headers=headers)).json()

        reported = [await explained("hello") for _ in range(10)]
        long = await explained("word " * 1000)
        answer = await ask(stack)

        assert [reported[0]] * 10 == reported
        assert answer.headers["x-warmgate-model"] == reported[0]["model"] == reported[0]["route"]["model"]
        assert {"old": 0.75, "new": 0.25} == reported[0]["route"]["shares"]
        assert ("large", "long", None) == (long["model"], long["route"]["rule"], long["route"]["share"])


async def test_a_route_is_listed_as_a_model_and_models_can_still_be_asked_for() -> None:
    async with routed({"name": "chat", "aliases": ["gpt-4o"], "to": [{"model": "new"}]}) as stack:
        listed = [card["id"] for card in (await stack.http.get("/v1/models")).json()["data"]]
        plain, alias = await ask(stack, model="old"), await ask(stack, model="gpt-4o")

        assert ["old", "new", "large", "remote", "chat", "gpt-4o"] == listed
        assert "x-warmgate-model" not in plain.headers
        assert "new" == alias.headers["x-warmgate-model"]


async def test_a_variant_that_is_down_is_passed_over() -> None:
    """Its callers get the next one, and their own again when it is back."""
    route = {"name": "chat", "to": [{"model": "new", "weight": 99}, {"model": "old", "weight": 1}]}
    async with routed(route) as stack:
        await stack.fault(stack.workers[1], "refuse")
        async with asyncio.timeout(60):
            while (await stack.metric("warmgate_worker_up"))['{model="new",worker="new"}']:
                await asyncio.sleep(0.02)
        answers = [await ask(stack) for _ in range(4)]

        assert [(200, "old")] * 4 == [(each.status_code, each.headers["x-warmgate-model"]) for each in answers]


async def test_a_key_needs_permission_for_the_route_only() -> None:
    """If the route asks for it, its variants need permission as well; usage and price are the variant's."""
    routes: list[dict[str, Any]] = [
        {"name": "chat", "to": [{"model": "new"}]},
        {"name": "strict", "to": [{"model": "new"}, {"model": "old"}], "variant_permits": True},
    ]
    async with routed(*routes, **GATEWAY) as stack:
        administration = Administration(stack.http)
        key = await administration.key(models=["chat", "strict", "old"])
        only = await administration.key(models=["strict"])
        allowed = await ask(stack, headers=key.headers)
        variant = await ask(stack, headers=key.headers, model="new")
        strict = [await ask(stack, headers=key.headers, model="strict") for _ in range(4)]
        refused = await ask(stack, headers=only.headers, model="strict")
        record = (await administration.records(key.team))[0]
        cards = (await administration.done("GET", "/models"))["data"]

        assert (200, "new") == (allowed.status_code, allowed.headers["x-warmgate-model"])
        assert (403, "model_not_allowed") == (variant.status_code, variant.json()["error"]["code"])
        assert {"old"} == {answer.headers["x-warmgate-model"] for answer in strict}
        assert (403, "model_not_allowed") == (refused.status_code, refused.json()["error"]["code"])
        assert ("chat", "new") == (record["model_asked"], record["model"])
        assert [
            {"name": "chat", "share": 1.0, "rules": []},
            {"name": "strict", "share": 0.5, "rules": []},
        ] == next(card["routes"] for card in cards if card["name"] == "new")
