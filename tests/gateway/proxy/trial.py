"""One request over a model of fake workers, for the tests of attempts."""

from collections.abc import Callable

import pytest

from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.models.model import Model
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import GatewayError
from gateway.proxy.attempt import Attempt
from gateway.proxy.attempts import Attempts
from gateway.proxy.exchange import Exchange
from gateway.proxy.retry_policy import RetryPolicy
from routing.request import Request
from tests.fakes.backends import Fake
from tests.gateway.examples import (
    Clock,
    a_call,
    an_exchange,
    in_flight,
)
from tests.routing.examples import a_request

CHAT_ENDPOINT = ENDPOINTS["/v1/chat/completions"]
REQUEST = FallbackRequest(
    prompt_tokens=10.0, max_tokens=16, expected_output_tokens=16.0, team="", path="/v1/chat/completions"
)


class Trial:
    """One request over *model*, up to the first answer or the failure, and then closed."""

    def __init__(
        self,
        model: Model,
        *,
        streams: bool = False,
        most: int | None = None,
        wait_s: float = 0.0,
        margin_s: float = 5.0,
        fallback_request: FallbackRequest | None = REQUEST,
        request: Request | None = None,
    ) -> None:
        self.model = model
        self.streams = streams
        self.retry_policy = RetryPolicy(max_attempts=most, wait_s=wait_s, first_byte_margin_s=margin_s)
        self.fallback_request = fallback_request
        self.request = request or a_request("abc", streams=streams)
        self.clock = Clock()
        self.exchange: Exchange = an_exchange()
        self.loads: dict[str, int] = {}
        """While the first answer was at hand."""

    async def run(self, *, then: Callable[[Attempts, Attempt], object] = lambda _, __: None) -> Attempt:
        attempts = Attempts(
            CHAT_ENDPOINT,
            self.model,
            self.request,
            a_call(streams=self.streams),
            self.exchange,
            strip_usage=False,
            fallback_request=self.fallback_request,
            retry_policy=self.retry_policy,
            clock=self.clock,
        )
        try:
            answer = await attempts.first_answer()
            self.loads = in_flight(self.model)
            then(attempts, answer)
            return answer
        finally:
            await attempts.aclose()

    async def failure(self) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.run()
        return caught.value


def asking(**more: float) -> Request:
    """A request for a whole answer."""
    return a_request("abc", streams=False).changed(**more)


def asked(*workers: Fake) -> list[int]:
    return [len(worker.calls) for worker in workers]


def bedrock(fallback: Fake) -> Fake:
    fallback.id = "bedrock:claude"
    return fallback
