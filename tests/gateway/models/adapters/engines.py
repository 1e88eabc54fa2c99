"""Workers that load adapters, without a network: what they have, what they were reported, and how they fail."""

import asyncio
import json
from collections.abc import Mapping, Sequence

from cache_index import WorkerId
from gateway.backends.backend import Call
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.registry import AdapterRegistry, AdapterTimeouts, ServedAdapter
from gateway.protocol.errors import ConnectFailed
from routing.fleet import Fleet
from tests.fakes.backends import JSON, Fake, ScriptedReply
from tests.gateway.examples import Clock
from tests.routing.examples import a_fleet

POET = Adapter("poet", "tiny", "/poet", load_on_demand=True)


class LoadingWorker(Fake):
    """Has *adapters*; loads others when it is notified to, unless it is to *fail* or to wait until it is `released`."""

    def __init__(
        self, name: str, *adapters: str, fails: int | None = None, is_away: bool = False, waits: bool = False
    ) -> None:
        super().__init__()
        self.id = name
        self.adapters = list(adapters)
        self.fails = fails
        """The status that it answers."""
        self.is_away = is_away
        self.released = asyncio.Event()
        if not waits:
            self.released.set()

    @property
    def reported(self) -> list[tuple[str, str]]:
        """What it was reported to do, and with which adapter."""
        return [(call.path.decode(), json.loads(call.body)["lora_name"]) for call in self.calls]

    async def _reply(self) -> ScriptedReply:
        if self.is_away:
            raise ConnectFailed(f"{self.id} is away")
        await self.released.wait()
        call = self.calls[-1]
        if self.fails is not None:
            return ScriptedReply(self.fails, JSON, [b"no room on the GPU"])
        return ScriptedReply(self._answer(call), JSON, [b"Success"])

    def _answer(self, call: Call) -> int:
        name = json.loads(call.body)["lora_name"]
        if b"unload" in call.path:
            self.adapters.remove(name)
        else:
            self.adapters.append(name)
        return 200


def a_subject(
    adapter: Adapter = POET, *workers: Fake, model: str | None = None, fleet: Fleet | None = None
) -> ServedAdapter:
    """A model of *adapter*, called as that, on *workers*."""
    ids = [WorkerId(worker.id) for worker in workers]
    return ServedAdapter(
        model or adapter.name,
        adapter,
        fleet or a_fleet(*ids),
        {worker_id: worker.url for worker_id, worker in zip(ids, workers, strict=True)},
    )


def a_shelf(
    *subjects: ServedAdapter, clock: Clock | None = None, patience: AdapterTimeouts | None = None
) -> AdapterRegistry:
    adapter_registry = AdapterRegistry(clock=clock or Clock())
    adapter_registry.attend(subjects, patience or AdapterTimeouts(load_s=2.0))
    return adapter_registry


def know(adapter_registry: AdapterRegistry, listed: Mapping[Fake, Sequence[str]], at: float = 0.0) -> None:
    """Workers tell which adapters they have."""
    for worker, adapters in listed.items():
        adapter_registry.listed(worker.url, adapters, at)


def prices(subject: ServedAdapter) -> dict[str, float]:
    """What a request for the adapter costs more, by worker."""
    return {worker.id: worker.zone_penalty_s for worker in subject.fleet}


class AnsweringWorker(LoadingWorker):
    """A worker that answers requests for adapters that it has; for others it says that it does not know them."""

    forgets = False
    """It loses an adapter as soon as it has loaded it."""

    async def _reply(self) -> ScriptedReply:
        call = self.calls[-1]
        if b"lora_adapter" in call.path:
            reply = await super()._reply()
            if self.forgets:
                self.adapters.clear()
            return reply
        if POET.name in self.adapters:
            return ScriptedReply(200, JSON, [b'{"choices":[{"message":{"content":"Hello"}}]}'])
        unknown = b'{"error":{"message":"The model `poet` does not exist.","type":"NotFoundError","code":404}}'
        return ScriptedReply(404, JSON, [unknown])

    @property
    def was_asked(self) -> list[str]:
        """The calls so far, in a word each."""
        words = {b"/v1/load_lora_adapter": "load", b"/v1/unload_lora_adapter": "unload"}
        return [words.get(call.path, "request") for call in self.calls]
