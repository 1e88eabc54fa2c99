"""What Envoy gets beside the endpoint of a request."""

from collections.abc import Mapping

from cache_index import WorkerId
from gateway.backends.backend import Call
from gateway.picker.chunks import Chunks
from gateway.picker.delivery import MAX_SCORES, EnvoyDelivery
from gateway.picker.destinations import Destinations
from gateway.picker.reply import EnvoyReply
from tests.gateway.examples import Clock
from tests.gateway.picker.envoy import At

CALL = Call(b"POST", b"/v1/chat/completions", [], b"{}", False, "tiny")


class Remembers:
    """Connection to Envoy that remembers the scores, and answers at once."""

    def __init__(self) -> None:
        self.scores: Mapping[str, float] = {}

    async def forward(self, _call: Call, _destination: str, scores: Mapping[str, float]) -> None:
        self.scores = scores

    async def begin_to(self, call: Call, destination: str) -> None:
        raise AssertionError("no session header decides")

    async def complete(self, call: Call) -> None:
        raise AssertionError("no session header decides")

    async def reply(self) -> tuple[EnvoyReply, str | None]:
        return EnvoyReply(200, [], Chunks(lambda: None)), None


async def scores_of(workers: Mapping[WorkerId, At], costs_s: Mapping[WorkerId, float]) -> Mapping[str, float]:
    """Return the scores that Envoy gets with a request that costs *costs_s* on *workers*."""
    wire = Remembers()
    delivery = EnvoyDelivery(
        wire, Destinations(Clock()), subset=None, max_fallbacks=2, shows_answers=True, reports_scores=True
    )
    delivery.allowed(workers)
    delivery.note_costs(costs_s)
    await delivery.send(CALL, next(iter(workers.values())), [], lambda _: None)
    return wire.scores


async def test_a_score_falls_with_the_cost_of_the_cheapest_rank() -> None:
    """Ranks share an address. A worker that has left has no score, nor has one whose address is unknown."""
    a, b, c, d, gone = map(WorkerId, ("a", "b", "c", "d", "gone"))
    workers = {a: At("10.0.0.1:1"), b: At("10.0.0.2:1"), c: At("10.0.0.2:1"), d: At("name.invalid:1")}

    scores = await scores_of(workers, {a: 0.0, b: 3.0, c: 1.0, d: 0.0, gone: 0.0})
    assert {"10.0.0.1:1": 1.0, "10.0.0.2:1": 0.5} == scores


async def test_the_number_of_scores_has_a_limit() -> None:
    """The cheapest endpoints have scores."""
    workers = {WorkerId(str(number)): At(f"10.0.0.{number}:1") for number in range(MAX_SCORES + 10)}

    scores = await scores_of(workers, {worker: float(worker) for worker in workers})
    assert {f"10.0.0.{number}:1" for number in range(MAX_SCORES)} == scores.keys()
