from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.app.fallbacks import (
    FallbackFactory,
    Signers,
    bedrock_fallbacks,
    canary_rules,
    first_event_wait_s,
    price_of,
)
from gateway.backends.fallbacks.canary import CanaryRules
from gateway.backends.fallbacks.failure_class import FailureClass
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.openai_endpoint import OpenAIEndpoint
from gateway.settings import PriceSettings, Settings, build
from gateway.tenancy.ledger.price import Price
from tests.gateway.backends.fallbacks.examples import a_request, described


def settings(*models: dict[str, Any], **groups: Any) -> Settings:
    groups = {"bedrock": {"region": "us-east-1"}, **groups}
    entries = [{"name": f"m{i}", "workers": [{"url": "http://a:1"}], **model} for i, model in enumerate(models)]
    return build({"models": entries, **groups}, {})


def bedrock(model_id: str = "qwen.qwen3-32b-v1:0", **more: Any) -> dict[str, Any]:
    return {"bedrock": {"model_id": model_id, **more}}


def openai(url: str = "http://llm.example.com/v1", **more: Any) -> dict[str, Any]:
    return {"openai": {"url": url, **more}}


class Stage:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self.fallback_factory = FallbackFactory(client)
        self._made: list[Fallbacks] = []

    def take(self, *models: dict[str, Any], **groups: Any) -> list[Fallbacks]:
        """Fallbacks of these models, which go on from those before, and their rates in force."""
        said = settings(*models, **groups)
        before = [*self._made, *[None] * len(models)]
        self._made = [
            self.fallback_factory.make(model, said, former=former)
            for model, former in zip(said.models, before, strict=False)
        ]
        self.fallback_factory.attend(said)
        return self._made


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        yield Stage(client)


async def test_fallbacks_stand_in_the_order_of_the_settings(stage: Stage) -> None:
    """`bedrock` of the model is the last."""
    [fallbacks] = stage.take(
        {
            "fallbacks": [openai(), bedrock("one"), openai("http://b/v1", id="second"), bedrock("two")],
            **bedrock("three"),
        }
    )

    assert ("openai:llm.example.com", "bedrock:one", "second", "bedrock:two", "bedrock:three") == fallbacks.ids


async def test_a_model_without_fallbacks_has_an_empty_one(stage: Stage) -> None:
    [fallbacks] = stage.take({})

    assert not fallbacks


async def test_what_the_settings_say_of_bedrock(stage: Stage) -> None:
    price = {"input_usd": 1, "output_usd": 2}
    [fallbacks] = stage.take(bedrock(context_tokens=32_768, max_output_tokens=8192, price=price))
    [fallback] = fallbacks.in_order

    assert ("bedrock", 32_768, 8192, 4096) == (
        fallback.kind,
        fallback.context_tokens,
        fallback.max_output_tokens,
        fallback.default_max_tokens,
    )
    assert 3.0 == fallback.price().cost_usd(1e6, 0, 1e6)
    assert ["bedrock:qwen.qwen3-32b-v1:0: not_served"] == [
        described(place) for place in fallbacks.attempts(a_request(path="/v1/completions"), 0.0)
    ]


async def test_what_the_settings_say_of_an_endpoint(stage: Stage) -> None:
    [fallbacks] = stage.take({"fallbacks": [openai(model="big", api_key="sk-1", context_tokens=1000)]})
    [fallback] = fallbacks.in_order

    assert isinstance(fallback.backend, OpenAIEndpoint)
    assert ("openai", 1000, None) == (fallback.kind, fallback.context_tokens, fallback.default_max_tokens)
    assert ("openai", "http://llm.example.com/v1", "big") == (
        fallback.target.key.kind,
        fallback.target.key.place,
        fallback.target.key.model,
    )
    assert fallback.connections is fallback.backend


async def test_without_a_price_of_its_own_it_costs_what_the_model_does(stage: Stage) -> None:
    [fallbacks] = stage.take({"price": {"input_usd": 3, "output_usd": 6}, **bedrock()})

    assert 9.0 == fallbacks.in_order[0].price().cost_usd(1e6, 0, 1e6)


def test_a_gpu_hour_is_a_price_at_each_moment() -> None:
    times = [(0.001, 0.01)]
    price = price_of(PriceSettings(gpu_hour_usd=3.6), lambda: times[-1])
    assert 1.0 == pytest.approx(price().cost_usd(1e6, 0, 0))

    times.append((0.002, 0.01))
    assert 2.0 == pytest.approx(price().cost_usd(1e6, 0, 0))
    assert 0.0 == price_of(PriceSettings(gpu_hour_usd=3.6), None)().cost_usd(1e6, 0, 0)


@pytest.mark.parametrize(
    ("model_id", "weight"),
    [
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", 5.0),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", 5.0),
        ("anthropic.claude-3-5-sonnet-20240620-v1:0", 1.0),
        ("anthropic.claude-3-haiku-20240307-v1:0", 1.0),
        ("anthropic.claude-instant-v1", 1.0),
        ("anthropic.claude-v2:1", 1.0),
        ("qwen.qwen3-32b-v1:0", 1.0),
    ],
)
async def test_what_output_weighs_in_a_quota(stage: Stage, model_id: str, weight: float) -> None:
    [fallbacks] = stage.take(bedrock(model_id))

    assert weight == fallbacks.in_order[0].output_weight


async def test_models_that_name_the_same_target_share_its_quota(stage: Stage) -> None:
    """The lowest that one of them says; in another region there is another quota."""
    one, two, elsewhere = stage.take(
        bedrock(requests_per_minute=60, ramp_s=None),
        bedrock(requests_per_minute=12, ramp_s=None),
        bedrock(region="us-west-2", requests_per_minute=60, ramp_s=None),
    )

    def passing(fallbacks: Fallbacks) -> int:
        places = [described(place) for _ in range(20) for place in fallbacks.attempts(a_request(), 0.0)]
        return places.count(fallbacks.ids[0])

    assert [2, 0, 10] == [passing(one), passing(two), passing(elsewhere)]


async def test_a_backend_is_made_again_only_if_something_about_it_is_new(stage: Stage) -> None:
    """Prices and rates are nothing that it knows of."""
    tiers = [openai(api_key="a")]
    first, second, third, fourth = [
        stage.take({"fallbacks": tiers, **bedrock(**more)}, **groups)[0].in_order
        for more, groups in (
            ({}, {}),
            ({"requests_per_minute": 5, "price": {"input_usd": 1}}, {}),
            ({"max_output_tokens": 5}, {}),
            ({"max_output_tokens": 5}, {"bedrock": {"region": "us-east-1", "profile": "p"}, "timeouts": {"idle_s": 5}}),
        )
    ]

    assert [True, True] == [a.backend is b.backend for a, b in zip(first, second, strict=True)]
    assert [True, False] == [a.backend is b.backend for a, b in zip(second, third, strict=True)]
    assert [False, False] == [a.backend is b.backend for a, b in zip(third, fourth, strict=True)]
    assert first[0].connections is second[0].connections


async def test_what_is_known_of_a_target_outlives_changes(stage: Stage) -> None:
    """Until the gateway proves itself in another way."""

    def breaker(**groups: Any) -> bool:
        return stage.take(bedrock(price={"input_usd": 1}), **groups)[0].in_order[0].target.breaker.is_open

    target = stage.take(bedrock())[0].in_order[0].target
    target.breaker.failed(FailureClass("shut"), target.breaker.sent(0.0), 0.0)

    assert breaker()
    assert not breaker(bedrock={"region": "us-east-1", "profile": "p"})


async def test_what_cannot_be_made_changes_no_limits(stage: Stage) -> None:
    [fallbacks] = stage.take(bedrock())
    broken = settings(bedrock(requests_per_minute=1), bedrock(region="Nowhere"))
    stage.fallback_factory.make(broken.models[0], broken, former=fallbacks)
    with pytest.raises(ValueError, match="region"):
        stage.fallback_factory.make(broken.models[1], broken)

    assert ["bedrock:qwen.qwen3-32b-v1:0"] * 9 == [
        described(place) for _ in range(9) for place in fallbacks.attempts(a_request(), 0.0)
    ]


def test_regions_share_the_credentials_of_a_profile() -> None:
    signers, shared = Signers(), settings({}).bedrock
    east, west = signers.signer(shared, "us-east-1"), signers.signer(shared, "us-west-2")

    assert east is signers.signer(shared, "us-east-1")
    assert east is not west
    assert _chain(east) is _chain(west)
    other = settings({}, bedrock={"profile": "p"}).bedrock
    assert _chain(east) is not _chain(signers.signer(other, "us-east-1"))


def _chain(signer: Any) -> object:
    return signer._credentials


async def test_an_api_key_takes_the_place_of_credentials(tmp_path: Any) -> None:
    (tmp_path / "key").write_text("from-file")
    by_value = settings({}, bedrock={"auth": "bearer", "bearer_token": "from-value"}).bedrock
    by_file = settings({}, bedrock={"auth": "bearer", "bearer_token_file": str(tmp_path / "key")}).bedrock

    assert ["Bearer from-value", "Bearer from-file"] == [
        (await Signers().signer(shared, "r").sign(url="https://x", headers={}, body=b""))["authorization"]
        for shared in (by_value, by_file)
    ]


async def test_aws_is_asked_for_its_catalog_only_where_it_answers_itself(stage: Stage) -> None:
    """Where something stands in its place, nothing goes to the real one."""
    there = stage.take(bedrock())[0].in_order[0].target.key
    fake = stage.take(bedrock(endpoint_url="http://127.0.0.1:1"))[0].in_order[0].target.key

    assert stage.fallback_factory.catalog(settings(bedrock()), there) is not None
    assert stage.fallback_factory.catalog(settings(bedrock()), fake) is None


def test_the_candidates_of_a_model_are_all_of_its_entries() -> None:
    [model] = settings({"fallbacks": [bedrock("one")], **bedrock("two")}).models

    assert ["one", "two"] == [each.model_id for each in bedrock_fallbacks(model)]


def test_the_canary_goes_by_the_settings() -> None:
    assert CanaryRules(at_start=True, every_s=604_800.0) == canary_rules(settings({}))
    assert CanaryRules(at_start=False, every_s=None) == canary_rules(
        settings({}, bedrock={"canary_at_start": False, "canary_every_s": None})
    )


def test_prices_are_listed_per_million() -> None:
    price = price_of(PriceSettings(input_usd=1, cached_input_usd=0.5, output_usd=2), None)()

    assert isinstance(price, Price)
    assert 2.5 == pytest.approx(price.cost_usd(1e6, 1e6, 1e6))


@pytest.mark.parametrize(
    ("model", "wait_s"),
    [
        ({"fallbacks": [bedrock()], "workers": []}, 300.0),
        ({"fallbacks": [bedrock(first_event_timeout_s=20)], "workers": []}, 20.0),
        ({"fallbacks": [bedrock(), openai()], "workers": []}, 60.0),
        ({"fallbacks": [bedrock()]}, 60.0),
    ],
)
async def test_who_alone_can_answer_has_the_time_of_the_last_worker(
    stage: Stage, model: dict[str, Any], wait_s: float
) -> None:
    """Unless the settings name a time."""
    [made] = settings(model).models
    [first, *_] = bedrock_fallbacks(made)

    assert wait_s == first_event_wait_s(first, made, settings(model))
    assert stage.take(model)


async def test_models_that_lead_to_the_same_target_learn_together(stage: Stage) -> None:
    """What one of them was refused none of them asks for again."""
    first, second = stage.take({"fallbacks": [bedrock()]}, {"fallbacks": [bedrock(context_tokens=9)]})

    assert first.in_order[0].target.refusals is second.in_order[0].target.refusals


async def test_a_fallback_reserves_no_more_output_than_its_model_takes(stage: Stage) -> None:
    [fallbacks] = stage.take({"fallbacks": [bedrock(), bedrock("somebody.elses"), bedrock(max_output_tokens=9)]})

    assert [8192, None, 9] == [fallback.max_output_tokens for fallback in fallbacks.in_order]
