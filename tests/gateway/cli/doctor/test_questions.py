from dataclasses import replace

from gateway.api.admin_v1.gateway_facts import GatewayFacts, ModelFacts, StreamFacts, WorkerFacts
from gateway.cli.doctor.questions import with_answers
from gateway.workers.worker_spec import WorkerSpec
from simulator.defects import Defects
from simulator.event_options import EventOptions
from simulator.options import SimulatorOptions
from simulator.server import serving


async def answered(spec: WorkerSpec, worker: WorkerFacts) -> WorkerFacts:
    facts = GatewayFacts(models=(ModelFacts(name="tiny", strategy="kv_aware", workers=(worker,)),))
    ((model,),) = [(await with_answers(facts, {("tiny", "w1"): spec})).models]
    return model.workers[0]


async def test_a_worker_says_how_its_cache_is_set_up() -> None:
    """It also says where it publishes KV events."""
    options = SimulatorOptions(port=0, speed=0, kv_events=EventOptions(), defects=Defects(enable_prefix_caching=False))
    async with serving(options) as url:
        worker = await answered(WorkerSpec(url, "w1"), WorkerFacts(id="w1"))

    assert ("vllm", False, 16, 2048) == (
        worker.engine,
        worker.prefix_caching,
        worker.block_size,
        worker.capacity_blocks,
    )
    assert StreamFacts(state="untrusted", has_replay=False) == worker.stream


async def test_what_the_settings_say_of_kv_events_stays() -> None:
    stream = StreamFacts(state="untrusted", has_replay=True)
    async with serving(SimulatorOptions(port=0, speed=0)) as url:
        worker = await answered(WorkerSpec(url, "w1"), WorkerFacts(id="w1", stream=stream))
        silent = await answered(WorkerSpec(url, "w1"), WorkerFacts(id="w1"))

    assert (stream, None) == (worker.stream, silent.stream)


async def test_a_worker_that_is_not_there() -> None:
    worker = await answered(WorkerSpec("http://127.0.0.1:1", "w1"), WorkerFacts(id="w1"))

    assert worker.fault is not None
    assert worker.fault.startswith("GET /v1/models: ")


async def test_workers_that_share_an_address_are_not_asked() -> None:
    worker = WorkerFacts(id="w1")
    spec = WorkerSpec("http://127.0.0.1:1", "w1")

    assert worker == await answered(replace(spec, ranks=2), worker)
