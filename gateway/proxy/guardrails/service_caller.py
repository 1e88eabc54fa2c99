"""Call the external service of a guardrail, with a time limit, a limit on concurrency, and a circuit breaker."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from gateway.protocol.errors import GatewayError, GuardrailUnavailable
from routing.breaker import Breaker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    timeout_s: float = 2.0
    """Maximum seconds for a call, including the wait for other calls to end."""
    most_at_once: int = 64


class ServiceCaller:
    """Caller of an external service. After five consecutive failures, it makes no call for some seconds."""

    def __init__(self, name: str, limits: ServiceLimits, *, clock: Callable[[], float]) -> None:
        """Create a caller for the service of the guardrail *name*."""
        self._name = name
        self._limits = limits
        self._clock = clock
        self._places = asyncio.Semaphore(limits.most_at_once)
        self._breaker = Breaker()

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Call the service by awaiting the function *question*, and return the result.

        Raises:
            GuardrailUnavailable: if the call fails or takes too long, or the circuit breaker is open.
        """
        asked_at = self._clock()
        if not self._breaker.allows(asked_at):
            raise self._away("is unavailable")
        self._breaker.sent(asked_at)
        why: str
        try:
            async with asyncio.timeout(self._limits.timeout_s), self._places:
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

    def _away(self, why: str) -> GuardrailUnavailable:
        return GuardrailUnavailable(f"The guardrail {self._name!r} {why}", retry_after_s=2)
