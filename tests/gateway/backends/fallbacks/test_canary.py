import asyncio
import logging
from collections.abc import Sequence

import httpx
import msgspec
import pytest

from gateway.app.fallbacks import FallbackFactory
from gateway.backends.backend import Call
from gateway.backends.fallbacks.canary import Canary, CanaryRules
from gateway.backends.fallbacks.catalog import Catalog, CatalogUnread
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.fallbacks.target import CanaryResult, TargetKey
from gateway.protocol.errors import ClientError, ConnectFailed, UpstreamTimeout
from gateway.settings import build
from tests.fakes.backends import Answers, Fake, Hangs, Raises
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT, FakeBedrock, Refuses, Says
from tests.gateway.backends.fallbacks.examples import a_fallback, a_target, named
from tests.gateway.examples import Clock

WEEKLY = CanaryRules(at_start=True, every_s=604_800.0)
DENIED = b'{"error":{"message":"Bedrock rejected the gateway\'s credentials (AccessDeniedException)","type":"x"}}'


class Listed(Catalog):
    """Has these models on their way out, or does not tell."""

    def __init__(self, *models: str, unread: bool = False) -> None:
        self._models = frozenset(models)
        self._unread = unread
        self.asked = 0

    async def legacy(self) -> frozenset[str]:
        self.asked += 1
        if self._unread:
            raise CatalogUnread("returned status 403")
        return self._models


class Stage:
    """A canary of *by_model*; its clock stands still but for its own pauses."""

    def __init__(
        self, *by_model: Fallbacks, rules: CanaryRules = WEEKLY, listed: Catalog | None = None, answer_s: float = 10.0
    ) -> None:
        self.clock = Clock(0.0)
        self.pauses: list[float] = []
        self.asked_of: list[TargetKey] = []
        self._listed = listed
        self.canary = Canary(
            lambda: by_model,
            rules=lambda: rules,
            catalog=self._catalog,
            clock=self.clock,
            sleep=self._sleep,
            answer_s=answer_s,
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.now += seconds
        await asyncio.sleep(0)

    def _catalog(self, key: TargetKey) -> Catalog | None:
        self.asked_of.append(key)
        return self._listed


def some_fallbacks(*backends: Fake, model: str = "tiny") -> Fallbacks:
    return Fallbacks(model, [a_fallback(each, target=a_target(each.id)) for each in backends])


def targets(fallbacks: Fallbacks) -> Sequence[CanaryResult | None]:
    return [fallback.target.checked for fallback in fallbacks.in_order]


async def test_each_model_is_asked_for_a_few_tokens() -> None:
    """One after the other, with a pause between."""
    one, two = named(Answers(), "bedrock:one"), named(Answers(), "bedrock:two")
    fallbacks = some_fallbacks(one, two)
    stage = Stage(fallbacks)
    await stage.canary.look()

    call: Call = one.calls[0]
    body = msgspec.json.decode(call.body)
    assert [1, 1] == [len(one.calls), len(two.calls)]
    assert (b"/v1/chat/completions", False, 16) == (call.path, call.streams, body["max_tokens"])
    assert [CanaryResult(ok=True, at=0.0), CanaryResult(ok=True, at=2.0)] == targets(fallbacks)
    assert [2.0] == stage.pauses
    assert all(reply.closed for reply in (*one.replies, *two.replies))


async def test_models_that_share_a_target_ask_once() -> None:
    backend, target = named(Answers(), "bedrock:one"), a_target()
    by_model = [Fallbacks(name, [a_fallback(backend, target=target)]) for name in ("tiny", "big")]
    await Stage(*by_model).canary.look()

    assert 1 == len(backend.calls)


async def test_only_bedrock_is_asked() -> None:
    """Other endpoints close no models to who is idle."""
    backend = Answers()
    await Stage(Fallbacks("tiny", [a_fallback(backend, kind="openai")])).canary.look()

    assert [] == backend.calls


async def test_it_asks_again_after_a_week() -> None:
    backend = named(Answers(), "bedrock:one")
    stage = Stage(some_fallbacks(backend))
    for now, calls in ((0.0, 1), (604_799.0, 1), (604_800.0, 2), (604_801.0, 2)):
        stage.clock.now = now
        await stage.canary.look()
        assert calls == len(backend.calls)


@pytest.mark.parametrize(
    ("rules", "calls"),
    [
        (CanaryRules(at_start=False, every_s=100.0), [0, 0, 1]),
        (CanaryRules(at_start=True, every_s=None), [1, 1, 1]),
        (CanaryRules(at_start=False, every_s=None), [0, 0, 0]),
    ],
)
async def test_when_it_asks_is_set(rules: CanaryRules, calls: list[int]) -> None:
    backend = named(Answers(), "bedrock:one")
    stage, seen = Stage(some_fallbacks(backend), rules=rules), []
    for now in (0.0, 99.0, 100.0):
        stage.clock.now = now
        await stage.canary.look()
        seen.append(len(backend.calls))

    assert calls == seen


async def test_a_refusal_is_reported_and_shuts_the_breaker(caplog: pytest.LogCaptureFixture) -> None:
    """No request has to find out; an hour later it is asked again."""
    backend = named(Answers(502, DENIED), "bedrock:one")
    fallbacks = some_fallbacks(backend)
    stage = Stage(fallbacks)
    await stage.canary.look()

    target = fallbacks.in_order[0].target
    assert CanaryResult(ok=False, at=0.0) == target.checked
    assert 600.0 == target.breaker.wait_s(0.0)
    assert (
        "The canary request for model tiny failed: bedrock:one: returned status 502: Bedrock rejected the gateway's "
        "credentials (AccessDeniedException)"
    ) in caplog.messages

    stage.clock.now = 3600.0
    backend.status = 200
    await stage.canary.look()
    assert CanaryResult(ok=True, at=3600.0) == target.checked
    assert not target.breaker.is_open


async def test_accounts_and_keys_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    said = b'{"error":{"message":"arn:aws:iam::123456789012:role/x, AKIAABCDEFGHIJKLMNOP"}}'
    await Stage(some_fallbacks(named(Answers(500, said), "bedrock:one"))).canary.look()

    assert "123456789012" not in caplog.text
    assert "AKIA" not in caplog.text


@pytest.mark.parametrize(
    "backend",
    [
        Raises(ConnectFailed("no AWS credentials")),
        Raises(UpstreamTimeout("silent", phase="first_byte")),
        Answers(503, b"<html>"),
        Raises(ClientError("chat is not served")),
    ],
)
async def test_whatever_fails_the_others_are_asked(backend: Fake) -> None:
    fallbacks = some_fallbacks(named(backend, "bedrock:one"), named(Answers(), "bedrock:two"))
    await Stage(fallbacks).canary.look()

    assert [False, True] == [checked.ok for checked in targets(fallbacks) if checked is not None]


async def test_who_does_not_answer_is_not_waited_for() -> None:
    backend = named(Hangs(), "bedrock:one")
    fallbacks = some_fallbacks(backend)
    await Stage(fallbacks, answer_s=0.05).canary.look()

    assert [CanaryResult(ok=False, at=0.0)] == targets(fallbacks)
    assert backend.given_up


async def test_models_that_aws_takes_away_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """One question for all models of a region."""
    fallbacks = Fallbacks(
        "tiny",
        [
            a_fallback(named(Answers(), "bedrock:us.meta.old"), target=a_target("us.meta.old")),
            a_fallback(named(Answers(), "bedrock:meta.new"), target=a_target("meta.new")),
        ],
    )
    listed = Listed("meta.old")
    await Stage(fallbacks, listed=listed).canary.look()

    assert 1 == listed.asked
    assert [True, False] == [fallback.target.is_legacy for fallback in fallbacks.in_order]
    assert (
        "AWS marks bedrock:us.meta.old as legacy and will retire it. Idle accounts lose access to it" in caplog.messages
    )


async def test_that_aws_does_not_tell_harms_no_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fallbacks = some_fallbacks(named(Answers(), "bedrock:one"))
    stage = Stage(fallbacks, listed=Listed(unread=True))
    await stage.canary.look()

    assert [CanaryResult(ok=True, at=0.0)] == targets(fallbacks)
    assert "The list of legacy models in us-east-1 could not be read (returned status 403)" in caplog.messages


async def test_it_goes_on_until_it_is_cancelled() -> None:
    """Whatever a look comes to: settings that add a fallback are seen at the next one."""
    backend, seen = named(Answers(), "bedrock:one"), asyncio.Event()
    looks = 0

    def by_model() -> list[Fallbacks]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("being changed")
        if looks == 4:
            seen.set()
        return [some_fallbacks(backend)] if looks == 3 else []

    stage = Stage()
    canary = Canary(
        by_model,
        rules=lambda: WEEKLY,
        catalog=lambda _: None,
        clock=stage.clock,
        sleep=stage._sleep,
    )
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(canary.run())
        await seen.wait()
        running.cancel()

    assert 1 == len(backend.calls)
    assert {30.0} == set(stage.pauses)


async def test_a_real_backend_is_asked_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bedrock's own refusal is understood: its kind comes through to the breaker."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in FOREIGN_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    async with FakeBedrock().serving() as fake, httpx.AsyncClient(trust_env=False) as client:
        bedrock = {"model_id": "qwen.qwen3-32b-v1:0", "region": "us-east-1", "endpoint_url": fake.base_url}
        settings = build({"models": [{"name": "tiny", "bedrock": bedrock}]}, {})
        factory = FallbackFactory(client)
        fallbacks = factory.make(settings.models[0], settings)
        target, stage = fallbacks.in_order[0].target, Stage(fallbacks)
        fake.next(Refuses(403, "AccessDeniedException", "You don't have access"), Says(("OK",)))
        await stage.canary.look()
        assert (CanaryResult(ok=False, at=0.0), 600.0) == (target.checked, target.breaker.wait_s(0.0))

        stage.clock.now = 3600.0
        await stage.canary.look()
        assert (CanaryResult(ok=True, at=3600.0), 0.0) == (target.checked, target.breaker.wait_s(3600.0))
        assert [] == fake.rejections
        assert {"maxTokens": 16} == fake.requests[-1].body["inferenceConfig"]
