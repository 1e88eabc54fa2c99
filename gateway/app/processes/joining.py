"""Connect the parts of the gateway in one process with the other processes."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import UNSET, UnsetType

from cache_index import WorkerId
from gateway.app.processes.link import ProcessLink
from gateway.app.processes.messages import Message
from gateway.telemetry.reloads import Reloaded
from gateway.workers.draining import Draining

Reload = Callable[[], Coroutine[Any, Any, Reloaded]]


def join_processes(
    link: ProcessLink,
    exposition: Callable[[], bytes],
    sliced_exposition: Callable[[], Awaitable[bytes]],
    draining: Draining,
    ask_reload: Callable[[], object] | None,
) -> None:
    """Share metrics, reloads and the draining of workers with the other processes by *link*."""

    def drained(model: str, worker: WorkerId, drains: bool, after_s: float | UnsetType | None) -> None:
        after = {} if after_s is UNSET else {"after_s": after_s}
        link.send("drain", model=model, worker=str(worker), drains=drains, **after)

    def drain(message: Message) -> None:
        draining.follow(
            message["model"],
            WorkerId(message["worker"]),
            drains=message["drains"],
            hand_over_after_s=message.get("after_s", UNSET),
        )

    def reload(_: Message) -> None:
        if ask_reload is not None:
            ask_reload()

    draining.share(drained)
    link.attach(exposition, sliced_exposition, drain=drain, reload=reload)


def reload_in_all(link: ProcessLink, reload: Reload) -> Reload:
    """Return *reload*, changed so that the other processes reload the configuration too, unless it is invalid."""

    async def reload_all() -> Reloaded:
        reloaded = await reload()
        if reloaded.outcome != "refused":
            link.send("reloaded")
        return reloaded

    return reload_all
