"""/admin/v1/models."""

from gateway.api.admin_v1.parts import AdminGateway
from gateway.app.mapping.surroundings import configured_models
from gateway.models.model_names import ModelNames
from gateway.models.registry import Models
from gateway.settings import build
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.administration import administration, fault
from tests.gateway.examples import a_draining, a_model, the_models

SETTINGS = build(
    {
        "models": [
            {
                "name": "tiny",
                "aliases": ["gpt-4*"],
                "upstream_model": "tiny-8b",
                "workers": [{"url": "http://a", "id": "a", "api_key": "w0rker-secret"}],
                "price": {"input_usd": 0.5, "output_usd": 1.5},
                "max_output_tokens": 4096,
                "bedrock": {"model_id": "anthropic.claude", "region": "eu-central-1"},
            },
            {"name": "big", "workers": [{"url": "http://b"}], "price": {"gpu_hour_usd": 2.5}},
        ]
    },
    {},
)


def of(models: Models) -> AdminGateway:
    return AdminGateway(models, lambda: configured_models(SETTINGS), draining=a_draining(models))


async def test_models_are_listed_with_price_limits_workers_and_fallbacks() -> None:
    """In the order of the settings; one that is not in force yet has no workers and no fallbacks."""
    fallback = Answers()
    fallback.id = "openai:other-site"
    models = the_models(a_model(Answers(), name="tiny", fallback=fallback))
    async with administration(gateway=of(models)) as admin:
        listed = await admin.get("/models")
        workers = (await admin.get("/workers"))["workers"]
    for worker in workers:
        del worker["source"], worker["reason"]
    tiny, big = listed["data"]

    assert {
        "object": "model",
        "name": "tiny",
        "aliases": ["gpt-4*"],
        "upstream_model": "tiny-8b",
        "adapter_of": None,
        "strategy": "prefix_aware",
        "routes": [],
        "price": {"input_usd": 0.5, "cached_input_usd": 0.5, "output_usd": 1.5, "gpu_hour_usd": None},
        "max_output_tokens": 4096,
        "bedrock": "anthropic.claude",
        "fallbacks": ["openai:other-site"],
        "fallback_budget": {"usd_per_hour": None, "share": None, "spent_usd": 0.0, "held_usd": 0.0},
        "not_ready": None,
        "in_flight": 0,
        "workers": workers,
    } == tiny
    assert ("big", 2.5, None, [], []) == (
        big["name"],
        big["price"]["gpu_hour_usd"],
        big["max_output_tokens"],
        big["fallbacks"],
        big["workers"],
    )
    assert "the model is not in effect yet" == big["not_ready"]
    assert "w0rker-secret" not in str(listed)


async def test_limits_are_of_models_that_are_configured() -> None:
    """Grants on an alias would have no effect; a grant that was accepted earlier stays, even if its model is gone."""
    unknown = {"model_limits": {"nobody": {"concurrent": 1}}}
    models = the_models(a_model(name="tiny"), aliases={"tiny": ["gpt-4o"]})
    async with administration(gateway=of(models)) as admin:
        await admin.make("teams", name="blue", model_limits={"tiny": {"concurrent": 1}})
        refused = [
            await admin.ask("POST", "/teams", {"name": "red", **unknown}),
            await admin.ask("PATCH", "/teams/blue", {"model_limits": {"gpt-4o": {"concurrent": 1}}}),
            await admin.ask("POST", "/keys", {"team": "blue", **unknown}),
        ]
        models.replace({}, ModelNames([]))
        changed = await admin.ask("PATCH", "/teams/blue", {"weight": 2})

    assert [(400, None, "model_limits")] * 3 == [fault(each) for each in refused]
    assert 200 == changed.status_code
