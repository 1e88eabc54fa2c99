"""vLLM's sleep mode (vllm/entrypoints/serve/sleep): /sleep, /wake_up and /is_sleeping.

1. A sleeping worker has lost its prefix cache, and ends what it computed with finish_reason ``abort``.
2. While it sleeps, inference is a 503, and everything else is answered as usual.
"""

from typing import Literal

from simulator.errors import ApiError
from simulator.exchange import HttpExchange
from simulator.ranks import Ranks

SleepState = Literal["awake", "weights_offloaded", "discard_all"]
"""States as vLLM's metric names them."""

_STATES: dict[str, SleepState] = {"1": "weights_offloaded", "2": "discard_all"}


class EngineSlept(Exception):
    """The engine went to sleep over a generation."""


class Sleep:
    def __init__(self, *, ranks: Ranks) -> None:
        self._ranks = ranks
        self.state: SleepState = "awake"

    @property
    def is_asleep(self) -> bool:
        return self.state != "awake"

    async def sleep(self, exchange: HttpExchange) -> None:
        level = exchange.query("level") or "1"
        state = _STATES.get(level)
        if state is None:
            raise ApiError(400, f"level: must be 1 or 2, got {level}", param="level")
        self.state = state
        self._ranks.fail(EngineSlept())
        self._ranks.clear()
        await exchange.reply(200, b"", b"")

    async def wake_up(self, exchange: HttpExchange) -> None:
        self.state = "awake"
        await exchange.reply(200, b"", b"")

    async def show(self, exchange: HttpExchange) -> None:
        await exchange.reply_json({"is_sleeping": self.is_asleep})
