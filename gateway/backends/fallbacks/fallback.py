"""One fallback of a model: its backend, what it accepts, and what it costs."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from gateway.backends.backend import Backend
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.backends.fallbacks.target import Target
from gateway.tenancy.ledger.price import Price


class Connections(Protocol):
    """Connections of a backend that has its own."""

    @property
    def connections_open(self) -> int: ...

    def retire(self) -> None:
        """Close each as soon as its call has ended."""
        ...

    async def aclose(self) -> None:
        """Cut all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Fallback:
    backend: Backend
    kind: str
    """Name of its kind, as the settings spell it."""
    target: Target
    """Quota and failures, which several models may share."""
    price: Callable[[], Price]
    """Price of its tokens at this moment."""
    paths: frozenset[str]
    """Paths of the endpoints that it serves."""
    context_tokens: int | None = None
    """Maximum of prompt and output tokens together; None: not known."""
    max_output_tokens: int | None = None
    """Maximum of output tokens; a request for more is cut to it. None: not known."""
    default_max_tokens: int | None = None
    """Output limit for requests that have none; None: they are sent without."""
    output_weight: float = 1.0
    """Weight of an output token in its rate; a prompt token has 1."""
    has_canary: bool = False
    """Whether it is tested periodically, see `Canary`."""
    connections: Connections | None = None
    made_from: Hashable = None
    """Settings that its backend was made from: a backend with the same settings is kept."""

    @property
    def id(self) -> str:
        return self.backend.id

    def takes(self, request: FallbackRequest) -> bool:
        """Return whether prompt and output fit.

        Without a limit of the caller the expected output counts: the limit that is sent is cut to what is left.
        """
        if self.context_tokens is None:
            return True
        wanted = request.expected_output_tokens if request.max_tokens is None else request.max_tokens
        if self.max_output_tokens is not None:
            wanted = min(wanted, self.max_output_tokens)
        return request.prompt_tokens + wanted <= self.context_tokens

    def output_tokens(self, request: FallbackRequest) -> float:
        """Return the maximum of output tokens, which is reserved.

        Without a limit of the caller or the fallback it is the expected output.
        """
        limits: list[float] = [limit for limit in (request.max_tokens, self.max_output_tokens) if limit is not None]
        if request.max_tokens is None:
            limits.append(
                request.expected_output_tokens if self.default_max_tokens is None else self.default_max_tokens
            )
        if self.context_tokens is not None:
            limits.append(max(0.0, self.context_tokens - request.prompt_tokens))
        return float(min(limits))
