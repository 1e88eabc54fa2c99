"""Workers by a name in DNS; `tests/contracts/test_discovery.py` holds for them too."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest

from gateway.workers.discovery.discovery_status import DiscoveryStatus
from gateway.workers.discovery.dns import EMPTY_ANSWERS, DnsDiscovery, DnsSource, NameUnanswered, resolve
from gateway.workers.discovery.source import WorkerSource
from tests.contracts.test_discovery import Sets, next_of

NAME = DnsSource(name="vllm.models", port=8000, interval_s=0.001)


class Answers:
    """A resolver that answers in turn, and with the last answer from then on."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self._answers = list(answers)
        self.asked = 0

    def __call__(self, name: str) -> Sequence[str]:
        assert "vllm.models" == name
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def watching(answers: Answers, discovery_status: DiscoveryStatus | None = None) -> AsyncIterator[Sets]:
    seen = discovery_status or DiscoveryStatus(clock=asyncio.get_running_loop().time)
    async with aclosing(
        DnsDiscovery(WorkerSource("tiny", NAME), NAME, discovery_status=seen, ask=answers).watch()
    ) as sets:
        yield sets


async def urls(sets: Sets) -> list[str]:
    return [worker.url for worker in await next_of(sets)]


async def test_each_address_is_a_worker() -> None:
    """Once, of either family, in an order of their own."""
    async with watching(Answers(["10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2"])) as sets:
        assert ["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::1]:8000"] == await urls(sets)


async def test_ranks_are_said_of_all_addresses() -> None:
    name = DnsSource(name="vllm.models", port=8000, ranks=2)
    seen = DiscoveryStatus(clock=asyncio.get_running_loop().time)
    discovery = DnsDiscovery(WorkerSource("tiny", name), name, discovery_status=seen, ask=Answers(["10.0.0.1"]))
    async with aclosing(discovery.watch()) as sets:
        assert [2] == [worker.ranks for worker in await next_of(sets)]


async def test_an_answer_in_another_order_is_no_change() -> None:
    """Resolvers turn their answers."""
    async with watching(Answers(["10.0.0.1", "10.0.0.2"], ["10.0.0.2", "10.0.0.1"], ["10.0.0.1"])) as sets:
        assert [2, 1] == [len(await urls(sets)), len(await urls(sets))]


async def test_while_no_one_answers_the_last_set_stays() -> None:
    """SERVFAIL, or no one there: that says nothing of the workers."""
    away = NameUnanswered("Temporary failure in name resolution")
    answers = Answers(["10.0.0.1"], *[away] * 5, ["10.0.0.2"])
    async with watching(answers) as sets:
        assert [["http://10.0.0.1:8000"], ["http://10.0.0.2:8000"]] == [await urls(sets), await urls(sets)]


async def test_before_the_first_answer_there_is_no_one() -> None:
    """The gateway knows that it does not know."""
    discovery_status = DiscoveryStatus(clock=lambda: 0.0)
    async with watching(Answers(NameUnanswered("try again"), ["10.0.0.1"]), discovery_status) as sets:
        first, awaited = await urls(sets), discovery_status.are_awaited
        reported = discovery_status.report()["tiny"]["dns"]
        assert ([], True, "the resolver failed: try again") == (first, awaited, reported["fault"])
        assert ["http://10.0.0.1:8000"] == await urls(sets)
        assert not discovery_status.are_awaited


async def test_a_name_without_addresses_has_none_after_a_few_answers() -> None:
    """NXDOMAIN and no data are answers; a resolver that starts gives them of every name."""
    few, enough = [()] * (EMPTY_ANSWERS - 1), [()] * EMPTY_ANSWERS
    answers = Answers(["10.0.0.1"], *few, ["10.0.0.2"], *enough, ["10.0.0.3"])
    async with watching(answers) as sets:
        seen = [await urls(sets) for _ in range(4)]

    assert [["http://10.0.0.1:8000"], ["http://10.0.0.2:8000"], [], ["http://10.0.0.3:8000"]] == seen


async def test_a_name_that_never_had_any_has_none() -> None:
    async with watching(Answers(())) as sets:
        assert [] == await urls(sets)


async def test_a_resolver_that_hangs_has_one_thread() -> None:
    """It is not asked again before it answers, and delays no one for long."""
    release = threading.Event()
    calls: list[str] = []

    def ask(name: str) -> Sequence[str]:
        calls.append(name)
        release.wait(10)
        return ["10.0.0.1"]

    discovery_status = DiscoveryStatus(clock=lambda: 0.0)
    discovery = DnsDiscovery(
        WorkerSource("tiny", NAME), NAME, discovery_status=discovery_status, ask=ask, patience_s=0.01
    )
    async with aclosing(discovery.watch()) as sets:
        assert [] == await urls(sets)
        assert "the resolver did not answer within 0.01 s" == discovery_status.report()["tiny"]["dns"]["fault"]
        waiting = asyncio.ensure_future(urls(sets))
        await asyncio.sleep(0.05)
        asked = len(calls)
        release.set()
        assert (1, ["http://10.0.0.1:8000"]) == (asked, await waiting)


def test_the_machines_resolver_is_asked() -> None:
    """It knows a name that every machine has, and not one that no machine has."""
    assert "127.0.0.1" in resolve("localhost")
    with pytest.raises(NameUnanswered, match="UnicodeError"):
        resolve("a" * 64 + ".invalid")
