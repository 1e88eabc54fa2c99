"""How long another service is waited for, how many questions it gets at once, and when it is left alone."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from gateway.errors import GatewayError, GuardrailAway
from routing.breaker import Breaker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    timeout_s: float = 2.0
    """For one question, the wait for its turn included."""
    most_at_once: int = 64


class Patient:
    """Asks one service. After five failures in a row it is left alone for some seconds."""

    def __init__(self, name: str, patience: Patience, *, clock: Callable[[], float]) -> None:
        """*name* is that of the guardrail."""
        self._name = name
        self._patience = patience
        self._clock = clock
        self._places = asyncio.Semaphore(patience.most_at_once)
        self._breaker = Breaker()

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """What *question* gives.

        Raises:
            GuardrailAway: it failed, took too long, or was not asked because so many have failed before.
        """
        asked_at = self._clock()
        if not self._breaker.allows(asked_at):
            raise self._away("is away")
        self._breaker.sent(asked_at)
        why: str
        try:
            async with asyncio.timeout(self._patience.timeout_s), self._places:
                answer = await question()
        except TimeoutError:
            why = "did not answer in time"
        except (GatewayError, OSError, ValueError) as error:
            why = f"failed ({type(error).__name__})"
        else:
            self._breaker.succeeded(self._clock(), sent_at=asked_at)
            return answer
        self._breaker.failed(self._clock(), sent_at=asked_at)
        raise self._away(why)

    def _away(self, why: str) -> GuardrailAway:
        return GuardrailAway(f"The guardrail {self._name!r} {why}", retry_after_s=2)
