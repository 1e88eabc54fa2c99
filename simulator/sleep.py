"""vLLM's sleep mode (vllm/entrypoints/serve/sleep): /sleep, /wake_up and /is_sleeping.

1. A worker that goes to sleep drops its prefix cache and ends running requests with the finish_reason ``abort``.
2. A sleeping worker returns 503 for inference requests and answers all other requests as usual.
"""

from typing import Literal

from simulator.errors import ApiError
from simulator.exchange import HttpExchange
from simulator.ranks import Ranks

SleepState = Literal["awake", "weights_offloaded", "discard_all"]
"""Names of the sleep states, as in vLLM's metric."""

_STATES: dict[str, SleepState] = {"1": "weights_offloaded", "2": "discard_all"}


class EngineSlept(Exception):
    """Error: the engine went to sleep during a generation."""


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
