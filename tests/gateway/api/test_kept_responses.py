"""Finding the worker that keeps a response."""

import pytest

from cache_index import WorkerId
from gateway.api.kept_responses import KeptResponses
from gateway.backends.backend import Call
from gateway.models.model import Model
from gateway.models.response_affinity.owners import ResponseOwner, ResponseOwners
from gateway.protocol.errors import ConnectFailed, GatewayError, NoWorker, UnknownResponse, UpstreamRefused
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.guards import GuardedModels, ModelGuards
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from tests.fakes.backends import Answers, Fake, Refuses
from tests.gateway.examples import a_model, the_models
from tests.gateway.proxy.guardrails.examples import a_filter, a_rule

ID = "resp_1"
A_KEY = Key(id="ci", team="blue", digest="0" * 64)
CALL = Call(b"GET", b"/v1/responses/resp_1", [], b"", streams=False, model="")
KEPT = b'{"id":"resp_1"}'


def keeps() -> Answers:
    return Answers(200, KEPT)


def knows_nothing() -> Answers:
    return Answers(404, b'{"error":{"message":"not found"}}')


class Trial:
    """One call about a response of `tiny`, whose workers are called a, b, c ...; *owner* is what is known of it."""

    def __init__(self, *workers: Fake, owner: ResponseOwner | None = None, others: Model | None = None) -> None:
        self.workers = workers
        self.model = a_model(*workers)
        self.owner = owner
        self.kept = KeptResponses(the_models(self.model, *([others] if others else [])), ResponseOwners())

    async def answer(self) -> bytes:
        reply, _ = await self.kept.ask(ID, CALL, self.owner)
        try:
            return await reply.read()
        finally:
            await reply.aclose()

    async def failure(self) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.kept.ask(ID, CALL, self.owner)
        return caught.value

    @property
    def asked(self) -> list[int]:
        assert all(reply.closed for worker in self.workers for reply in worker.replies)
        return [len(worker.calls) for worker in self.workers]


async def test_the_worker_that_keeps_it_is_asked_alone() -> None:
    """The call goes to it as it is."""
    trial = Trial(keeps(), keeps(), owner=ResponseOwner("tiny", WorkerId("b")))

    assert KEPT == await trial.answer()
    assert [0, 1] == trial.asked
    assert [CALL] == trial.workers[1].calls


@pytest.mark.parametrize("owner", [ResponseOwner("tiny", WorkerId("z")), ResponseOwner("former", WorkerId("a"))])
async def test_what_a_worker_kept_that_is_no_more_is_gone(owner: ResponseOwner) -> None:
    """No one else can have it, so no one is asked; the same goes for a model that is no more."""
    trial = Trial(keeps(), owner=owner)
    failure = await trial.failure()

    assert isinstance(failure, UnknownResponse)
    assert (404, "response_not_found", "response_id") == (failure.status, failure.code, failure.param)
    assert [0] == trial.asked


async def test_what_the_keeper_says_is_its_answer() -> None:
    """Also that it knows nothing of it any more, as after a restart."""
    trial = Trial(Answers(404, b"gone"), owner=ResponseOwner("tiny", WorkerId("a")))

    assert b"gone" == await trial.answer()


@pytest.mark.parametrize(("status", "found"), [(500, 500), (503, 503), (401, 502)])
async def test_a_keeper_that_fails_is_reported_as_a_failing_worker(status: int, found: int) -> None:
    """With its words; but what it says of the gateway's own key is not the caller's business."""
    trial = Trial(Answers(status, b'{"message":"out of order"}'), owner=ResponseOwner("tiny", WorkerId("a")))
    failure = await trial.failure()

    assert isinstance(failure, UpstreamRefused)
    assert (found, f"a answered {status}: out of order") == (failure.status, failure.message)
    assert [1] == trial.asked


async def test_a_keeper_that_cannot_be_reached_is_reported_so() -> None:
    """The response may be there again in a moment."""
    trial = Trial(Refuses(), keeps(), owner=ResponseOwner("tiny", WorkerId("a")))

    assert isinstance(await trial.failure(), ConnectFailed)
    assert [1, 0] == trial.asked


async def test_of_an_unknown_one_everybody_is_asked_in_turn() -> None:
    """Until somebody keeps it: it is from before a restart, or from another replica."""
    trial = Trial(knows_nothing(), knows_nothing(), keeps(), keeps())

    assert KEPT == await trial.answer()
    assert [1, 1, 1, 0] == trial.asked


async def test_workers_of_all_models_are_asked() -> None:
    """An id does not tell its model."""
    assert KEPT == await Trial(knows_nothing(), others=a_model(keeps(), name="other")).answer()


async def test_one_that_no_one_keeps_is_unknown() -> None:
    """Everybody has said so."""
    trial = Trial(knows_nothing(), knows_nothing())

    assert isinstance(await trial.failure(), UnknownResponse)
    assert [1, 1] == trial.asked


async def test_without_workers_no_one_keeps_it() -> None:
    """There is no one to ask."""
    assert isinstance(await Trial().failure(), UnknownResponse)


@pytest.mark.parametrize("sick", [Refuses, lambda: Answers(500), lambda: Answers(401), lambda: Answers(429)])
async def test_a_sick_worker_does_not_hide_what_another_keeps(sick: type[Fake]) -> None:
    trial = Trial(sick(), keeps())

    assert KEPT == await trial.answer()
    assert [1, 1] == trial.asked


@pytest.mark.parametrize("sick", [Refuses, lambda: Answers(500)])
async def test_one_that_a_silent_worker_may_keep_is_not_unknown(sick: type[Fake]) -> None:
    """A caller who is reported 404 would give it up for good."""
    trial = Trial(knows_nothing(), sick())
    failure = await trial.failure()

    assert isinstance(failure, NoWorker)
    assert 2.0 == failure.retry_after_s
    assert [1, 1] == trial.asked


async def test_a_worker_that_is_down_is_not_asked_and_may_keep_it() -> None:
    """Its health is known already."""
    trial = Trial(knows_nothing(), keeps())
    trial.model.fleet.set_up(WorkerId("b"), up=False)

    assert isinstance(await trial.failure(), NoWorker)
    assert [1, 0] == trial.asked


async def test_a_worker_that_sleeps_or_drains_is_asked() -> None:
    """It is its engine that sleeps, and a look at a response is no new work."""
    trial = Trial(knows_nothing(), keeps())
    trial.model.fleet.set_asleep(WorkerId("b"), asleep=True)
    trial.model.fleet.set_draining(WorkerId("a"), draining=True)

    assert KEPT == await trial.answer()
    assert [1, 1] == trial.asked


class Whose:
    def __init__(self) -> None:
        owners = ResponseOwners()
        owners.remember(ID, ResponseOwner("tiny", WorkerId("a"), "blue"))
        owners.remember("resp_2", ResponseOwner("tiny", WorkerId("a"), "red", "nickname"))
        owners.remember("resp_3", ResponseOwner("tiny", WorkerId("a"), "red"))
        owners.remember("resp_4", ResponseOwner("tiny", WorkerId("a")))
        self.kept = KeptResponses(the_models(a_model(keeps())), owners)
        self.blue = Caller(Team(name="blue"), A_KEY)
        self.red = Caller(Team(name="red", models=("nickname",)), A_KEY)

    async def seen(self, response_id: str, caller: Caller | None) -> str:
        """The team of its owner, or why that is not reported."""
        try:
            owner = await self.kept.owner(response_id, caller)
        except GatewayError as error:
            return error.code or error.reason
        return "nobody" if owner is None else str(owner.team)


async def test_a_response_is_its_own_teams() -> None:
    """To others, and to those who have none, it is as if there were not; unknown ones are no one's."""
    whose = Whose()

    assert "blue" == await whose.seen(ID, whose.blue)
    assert "response_not_found" == await whose.seen(ID, whose.red)
    assert "response_not_found" == await whose.seen(ID, None)
    assert "response_not_found" == await whose.seen("resp_9", whose.blue)
    assert "response_not_found" == await whose.seen("resp_4", whose.blue)
    assert "None" == await whose.seen("resp_4", None)
    assert "nobody" == await whose.seen("resp_9", None)


async def test_a_key_sees_what_models_made_that_it_may_use() -> None:
    whose = Whose()

    assert "red" == await whose.seen("resp_2", whose.red)
    assert "model_not_allowed" == await whose.seen("resp_3", whose.red)


async def test_what_cannot_be_an_id_is_refused() -> None:
    assert "InvalidField" == await Whose().seen("..", None)


def test_the_model_of_an_owner_may_be_gone() -> None:
    kept = KeptResponses(the_models(model := a_model(keeps())), ResponseOwners())

    assert model is kept.model_of(ResponseOwner("tiny", WorkerId("a")))
    assert kept.model_of(ResponseOwner("former", WorkerId("a"))) is None


def test_a_kept_response_is_guarded_as_the_model_that_made_it() -> None:
    made, other = a_model(keeps()), a_model(keeps(), name="other")
    guarded, owners = GuardedModels(), ResponseOwners()
    exchange = Exchange(b"", "/v1/responses", 0.0)
    kept = KeptResponses(the_models(made, other), owners, guarded)
    assert [] == kept.guards(ID, None, exchange)

    rules = {name: a_rule(a_filter(name)) for name in ("first", "second")}
    counters = GuardrailCounters()
    guarded.use(
        {
            "tiny": ModelGuards(rules, ["first"], model="tiny", counters=counters),
            "other": ModelGuards(rules, ["second"], model="other", counters=counters),
        }
    )
    assert 2 == len(kept.guards(ID, None, exchange))
    owners.remember(ID, ResponseOwner("other", WorkerId("a")))
    (guard,) = kept.guards(ID, None, exchange)
    assert ["second"] == [rule.filter.name for rule in guard._chain.rules]
