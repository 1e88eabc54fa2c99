"""Workers behind an address, asked of simulated engines and of other servers."""

import json
from collections.abc import Mapping, Sequence

import pytest

from gateway.backends.client import WorkerClient
from gateway.workers.rank_discovery.address_probe import RARELY, AddressProbe
from gateway.workers.shared_address.address_report import AddressReport
from gateway.workers.worker_spec import DynamoSpec, EventsSpec
from simulator.errors import Dialect
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.fakes.engine import Answer, FakeEngine, Page, fake_engine


class Owners:
    """Finds the streams of those that a test says; remembers what it was asked."""

    def __init__(self, **streams: EventsSpec) -> None:
        self.streams = streams
        self.asked: list[tuple[str, list[str], int]] = []

    async def owners(
        self,
        url: str,
        headers: Mapping[str, str],
        model: str,
        instances: Sequence[str],
        streams: Sequence[EventsSpec],
    ) -> dict[str, EventsSpec]:
        self.asked.append((model, list(instances), len(streams)))
        return {each: self.streams[f"i{each}"] for each in instances if f"i{each}" in self.streams}


async def asked(url: str, dynamo: DynamoSpec | None = None) -> AddressReport | None:
    async with WorkerClient() as client:
        return await AddressProbe(client, Owners(), timeout_s=10).ask(url, {}, dynamo, "tiny")


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_engines_tell_how_many_ranks_they_have(dialect: Dialect, ranks: int) -> None:
    options = SimulatorOptions(port=0, speed=0, blocks=64, dialect=dialect, ranks=ranks)
    async with serving(options) as url:
        assert AddressReport(ranks=ranks) == await asked(url)


@pytest.mark.parametrize(
    ("answers", "ranks"),
    [
        ({"/metrics": Page('sglang:num_running_reqs{dp_rank="0"} 1\nsglang:num_running_reqs{dp_rank="1"} 1\n')}, 2),
        ({"/metrics": Page("sglang:num_running_reqs 1\n")}, 1),
        ({"/metrics": Page("x 1\n"), "/server_info": Page('{"dp_size":4}')}, 4),
    ],
)
async def test_sglang_reports_it_here_or_there(answers: dict[str, Answer], ranks: int) -> None:
    async with fake_engine(answers) as engine:
        assert AddressReport(ranks=ranks) == await asked(engine.url)


@pytest.mark.parametrize("info", ["{}", "[", '{"dp_size":0}', '{"dp_size":"x"}', '{"dp_size":100000}'])
async def test_others_do_not_tell(info: str) -> None:
    async with fake_engine({"/server_info": Page(info)}) as engine:
        assert await asked(engine.url) is None


async def test_a_frontend_lists_its_workers() -> None:
    """Those of the component that is wanted."""
    options = SimulatorOptions(port=0, speed=0, blocks=64, dialect="dynamo", ranks=2)
    async with serving(options) as url:
        found = await asked(url, DynamoSpec(component="backend"))
        others = await asked(url, DynamoSpec(component="prefill"))

    assert found is not None
    assert ["127.0.0.1"] * 2 == [instance.host for instance in found.instances]
    assert AddressReport() == others


async def test_who_is_no_frontend_lists_no_one() -> None:
    async with fake_engine({"/health": Page("ok")}) as engine:
        assert await asked(engine.url, DynamoSpec()) is None
    async with fake_engine({}) as no_one:
        assert await asked(no_one.url, DynamoSpec()) is None


# ---- streams of those that share a host

FIRST, SECOND = (EventsSpec(endpoint=f"tcp://10.0.0.5:{port}") for port in (5557, 5561))
SHARED = DynamoSpec(streams=(FIRST, SECOND))


def listing(*ids: int) -> Page:
    return Page(json.dumps({"instances": [{"instance_id": each, "endpoint": "generate"} for each in ids]}))


async def streams_of(address_probe: AddressProbe, engine: FakeEngine) -> dict[str, EventsSpec | None]:
    found = await address_probe.ask(engine.url, {}, SHARED, "tiny")
    assert found is not None
    return {each.id: each.stream for each in found.instances}


async def test_whose_a_stream_is_is_found_out_once() -> None:
    """Only new workers are paired, with streams that are free."""
    owners = Owners(i7=FIRST, i8=SECOND)
    async with fake_engine({"/health": listing(7)}) as engine, WorkerClient() as client:
        address_probe = AddressProbe(client, owners, timeout_s=10)
        alone = [await streams_of(address_probe, engine) for _ in range(2)]
        engine.answers["/health"] = listing(7, 8)
        both = await streams_of(address_probe, engine)
        engine.answers["/health"] = listing(8)
        await streams_of(address_probe, engine)
        engine.answers["/health"] = listing(7, 8)
        await streams_of(address_probe, engine)

    assert ([{"7": FIRST}] * 2, {"7": FIRST, "8": SECOND}) == (alone, both)
    assert [("tiny", ["7"], 2), ("tiny", ["8"], 1), ("tiny", ["7"], 1)] == owners.asked


async def test_what_could_not_be_found_out_is_tried_again_rarely() -> None:
    """New workers are paired at once; the worker serves meanwhile, without events."""
    owners = Owners()
    async with fake_engine({"/health": listing(7)}) as engine, WorkerClient() as client:
        address_probe = AddressProbe(client, owners, timeout_s=10)
        assert {"7": None} == await streams_of(address_probe, engine)
        for _ in range(RARELY - 1):
            await streams_of(address_probe, engine)
        assert 1 == len(owners.asked)
        await streams_of(address_probe, engine)
        engine.answers["/health"] = listing(7, 8)
        await streams_of(address_probe, engine)

    assert [["7"], ["7"], ["7", "8"]] == [instances for _, instances, _ in owners.asked]
