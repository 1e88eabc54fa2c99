"""/admin/v1/cache-map."""

from gateway.api.admin_v1.parts import AdminGateway
from gateway.telemetry.caches.cache_map import CacheMaps
from gateway.telemetry.caches.index_truth import IndexTruths
from gateway.telemetry.caches.prefix_words import PrefixWords
from gateway.telemetry.caches.views import CacheViews
from tests.gateway.api.admin_v1.administration import KEYS, administration
from tests.gateway.api.admin_v1.test_one_team import LIMITED
from tests.gateway.examples import a_draining, the_models
from tests.gateway.telemetry.caches.examples import Observed
from tests.routing.examples import BLOCK_BYTES, A, a_request, prompt


def a_gateway(observed: Observed) -> AdminGateway:
    """A gateway that shows what was *observed*."""
    models = the_models(observed.model)
    maps = CacheMaps(observed.activity, observed.index, observed.confirmed, BLOCK_BYTES, observed.clock)
    views = CacheViews(maps, IndexTruths(observed.activity.history, observed.streams))
    return AdminGateway(models, tuple, draining=a_draining(models), caches=views)


async def test_a_viewer_sees_the_map() -> None:
    observed = Observed()
    observed.index.record(A, prompt("abcdef"))
    for _ in range(3):
        observed.activity.observe([observed.answered(a_request("abcdef"), team="blue")])
    async with administration(gateway=a_gateway(observed)) as admin:
        found = (await admin.ask("GET", "/cache-map", who="vi")).json()
    (prefix,) = found["prefixes"]

    assert ("tiny", None, 96) == (found["model"], found["next"], prefix["tokens"])
    assert [{"team": "blue", "requests_per_minute": prefix["requests_per_minute"]}] == prefix["teams"]
    assert ["a", "b", "c"] == [worker["worker"] for worker in found["workers"]]
    assert [{"prefix": prefix["id"], "tokens": 96, "cpu_tokens": 0, "disk_tokens": 0, "shared_tokens": 0}] == found[
        "workers"
    ][0]["held"]


async def test_workers_come_in_pages_and_prefixes_are_limited() -> None:
    observed = Observed()
    for letter in "abc":
        observed.activity.observe([observed.answered(a_request(letter * 4)) for _ in range(3)])
    async with administration(gateway=a_gateway(observed)) as admin:
        found = await admin.get("/cache-map?model=tiny&prefixes=2&limit=1&after=a")

    assert (2, ["b"], "b") == (len(found["prefixes"]), [each["worker"] for each in found["workers"]], found["next"])


async def test_an_unknown_model_and_an_unknown_parameter_are_errors() -> None:
    async with administration(gateway=a_gateway(Observed())) as admin:
        answers = [await admin.ask("GET", f"/cache-map?{query}", who="vi") for query in ("model=x", "limits=1")]

    assert [404, 400] == [answer.status_code for answer in answers]


async def test_all_models_are_named() -> None:
    async with administration(gateway=a_gateway(Observed())) as admin:
        found = [await admin.get(path) for path in ("/cache-map", "/index-truth")]

    assert [["tiny"], ["tiny"]] == [each["models"] for each in found]


async def test_without_an_observer_there_is_no_route() -> None:
    models = the_models(Observed().model)
    async with administration(gateway=AdminGateway(models, tuple, draining=a_draining(models))) as admin:
        assert 404 == (await admin.ask("GET", "/cache-map", who="vi")).status_code


async def test_it_is_described() -> None:
    """With the type of every field."""
    async with administration(gateway=a_gateway(Observed())) as admin:
        description = await admin.get("/openapi.json")

    assert "/admin/v1/cache-map" in description["paths"]
    assert "eviction_age_s" in description["components"]["schemas"]["WorkerCache"]["properties"]


async def test_words_are_shown_until_a_team_without_recording_uses_the_prefix() -> None:
    observed = Observed(words=PrefixWords(lambda team: team == "blue", block_bytes=64))
    request = a_request("abcdef")
    async with administration(gateway=a_gateway(observed)) as admin:
        observed.activity.observe([observed.recorded(request, "blue", "You are a helpful bot.")] * 3)
        (shown,) = (await admin.get("/cache-map"))["prefixes"]
        observed.activity.observe([observed.answered(request, team="red")])
        (hidden,) = (await admin.get("/cache-map"))["prefixes"]

    assert ("You are a helpful bot.", None) == (shown["words"], hidden["words"])


async def test_viewers_of_a_team_see_no_words() -> None:
    observed = Observed(words=PrefixWords(lambda team: True, block_bytes=64))
    observed.activity.observe([observed.recorded(a_request("abcdef"), "blue", "You are a helpful bot.")] * 3)
    async with administration(gateway=a_gateway(observed), keys=(*KEYS, LIMITED)) as admin:
        answer = await admin.ask("GET", "/cache-map", who="bv")

    assert (403, False) == (answer.status_code, "helpful" in answer.text)
