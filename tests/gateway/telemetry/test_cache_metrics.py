"""What Prometheus sees of how caches are known."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.residency import Residency
from gateway.models.model import Model
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.telemetry.cache_metrics import CacheCollector
from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.feed import Trust
from tests.fakes.backends import Answers
from tests.fakes.intake import some_counters
from tests.gateway.exact_examples import follow
from tests.gateway.examples import a_model
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, reporting_fleet, stored
from tests.routing.examples import A, B

C = WorkerId("c")

A_STREAM = some_counters(
    doubt="partial",
    batches=50,
    connections=2,
    events={"stored": 40, "removed": 9, "cleared": 1},
    blocks={"stored": 400, "removed": 90},
    duplicates=3,
    late=4,
    gaps=5,
    lost_batches=6,
    replays=7,
    restarts=8,
    rebuilds=9,
    turned_away=10,
    undecodable=11,
    malformed=12,
    other_topic=13,
    ignored={"other_group": 14},
    refused={"bigram": 15},
    last_seq=57,
    lag_s=0.25,
)


class Streams:
    """In the states and with the counters that a test gives them."""

    def __init__(
        self, states: Mapping[WorkerId, Trust] | None = None, counters: Mapping[WorkerId, StreamCounters] | None = None
    ) -> None:
        self.states = states or {}
        self.result = counters or {}

    def subjects(self) -> list[WorkerId]:
        return list(self.states)

    def state(self, worker: WorkerId) -> Trust | None:
        return self.states.get(worker)

    def counters(self) -> Mapping[WorkerId, StreamCounters]:
        return self.result


def exposed(*models: Model, streams: Streams | None = None, confirmed: Confirmed | None = None) -> str:
    """Return the metrics in the text format."""
    registry = CollectorRegistry()
    confirmed = confirmed or Confirmed(Residency(TOKEN_HASHER, max_bytes=1_000_000))
    registry.register(CacheCollector(models, streams or Streams(), confirmed, max_confirmed_bytes=1_000_000))
    return generate_latest(registry).decode()


def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name by their label values, in the order of the names of the labels; zeros left out."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.value
    }


def test_the_families_are_these() -> None:
    """Dashboards and alerts rely on names, types and help; all are there from the start."""
    families = text_string_to_metric_families(exposed())

    assert [
        ("gauge", "warmgate_kv_stream_state"),
        ("gauge", "warmgate_kv_stream_doubt"),
        ("gauge", "warmgate_kv_stream_lag_seconds"),
        ("gauge", "warmgate_kv_stream_sequence"),
        ("counter", "warmgate_kv_events"),
        ("counter", "warmgate_kv_blocks"),
        ("counter", "warmgate_kv_batches"),
        ("counter", "warmgate_kv_stream_transitions"),
        ("counter", "warmgate_kv_unused"),
        ("gauge", "warmgate_confirmed_bytes"),
        ("gauge", "warmgate_confirmed_max_bytes"),
        ("counter", "warmgate_index_anomalies"),
        ("counter", "warmgate_exact_prompts"),
        ("gauge", "warmgate_worker_load_tokens_per_second"),
        ("counter", "warmgate_pulls"),
        ("counter", "warmgate_pulled_tokens"),
    ] == [(family.type, family.name) for family in families if family.documentation.endswith(".")]


def test_all_counters_of_a_stream_are_exposed() -> None:
    """Each of its counters once."""
    text = exposed(streams=Streams({A: "stale"}, {A: A_STREAM}))

    assert {("stale", "a"): 1.0} == samples(text, "warmgate_kv_stream_state")
    assert {("partial", "a"): 1.0} == samples(text, "warmgate_kv_stream_doubt")
    assert {("a",): 0.25} == samples(text, "warmgate_kv_stream_lag_seconds")
    assert {("a",): 57.0} == samples(text, "warmgate_kv_stream_sequence")
    assert {("stored", "a"): 40.0, ("removed", "a"): 9.0, ("cleared", "a"): 1.0} == samples(
        text, "warmgate_kv_events_total"
    )
    assert {("stored", "a"): 400.0, ("removed", "a"): 90.0} == samples(text, "warmgate_kv_blocks_total")
    assert {
        ("taken", "a"): 50.0,
        ("duplicate", "a"): 3.0,
        ("late", "a"): 4.0,
        ("lost", "a"): 6.0,
        ("turned_away", "a"): 10.0,
        ("undecodable", "a"): 11.0,
        ("malformed", "a"): 12.0,
        ("other_topic", "a"): 13.0,
    } == samples(text, "warmgate_kv_batches_total")
    assert {
        ("connection", "a"): 2.0,
        ("gap", "a"): 5.0,
        ("replay", "a"): 7.0,
        ("restart", "a"): 8.0,
        ("rebuild", "a"): 9.0,
    } == samples(text, "warmgate_kv_stream_transitions_total")
    assert {("other_group", "a"): 14.0, ("bigram", "a"): 15.0} == samples(text, "warmgate_kv_unused_total")


def test_every_worker_that_is_followed_has_its_state() -> None:
    """A worker that has not named its stream yet has a state too, and no other series."""
    states: dict[WorkerId, Trust] = {A: "live", B: "untrusted"}
    text = exposed(streams=Streams(states, {A: some_counters()}))

    assert {("live", "a"): 1.0, ("untrusted", "b"): 1.0} == samples(text, "warmgate_kv_stream_state")
    for empty in ("doubt", "lag_seconds", "sequence"):
        assert {} == samples(text, f"warmgate_kv_stream_{empty}")


def test_the_index_of_reported_blocks_has_metrics() -> None:
    """Its memory, the limit of that, and what was odd."""
    _, confirmed = reporting_fleet(A)
    empty = confirmed.size_bytes
    confirmed.apply(A, stored("abc"), model=MODEL)
    confirmed.apply(A, stored("abc"), model=MODEL)
    text = exposed(confirmed=confirmed)

    assert {(): float(confirmed.size_bytes)} == samples(text, "warmgate_confirmed_bytes")
    assert confirmed.size_bytes > empty
    assert {(): 1_000_000.0} == samples(text, "warmgate_confirmed_max_bytes")
    assert {("announced_again",): 3.0} == samples(text, "warmgate_index_anomalies_total")


async def test_prompts_are_counted_by_whether_their_tokens_were_known() -> None:
    """Unknown tokens have a reason; models without followed workers have no series."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("a"), model=MODEL)
    fleet.tick(0.0)
    model = a_model(Answers(), fleet=fleet)
    token_source = follow(model, NotExact("slow"))
    prompts = model.exact_prompts
    assert prompts is not None
    await prompts.tokenize("/v1/completions", b"", None)
    token_source.outcome = Exact(b"", 0)
    for _ in range(2):
        await prompts.tokenize("/v1/completions", b"", None)
    text = exposed(model, a_model(Answers(), name="big"))

    assert {("tiny", "exact"): 2.0, ("tiny", "slow"): 1.0} == samples(text, "warmgate_exact_prompts_total")
