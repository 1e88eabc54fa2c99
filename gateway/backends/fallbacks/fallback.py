"""Fallback of a model, with its backend, limits and price."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from gateway.backends.backend import Backend
from gateway.backends.fallbacks.fallback_request import FallbackRequest
from gateway.backends.fallbacks.target import Target
from gateway.tenancy.ledger.price import Price


class Connections(Protocol):
    """Connection pool of a single backend, separate from the gateway's shared HTTP client."""

    @property
    def connections_open(self) -> int: ...

    def retire(self) -> None:
        """Close each connection as soon as its current call ends."""
        ...

    async def aclose(self) -> None:
        """Close all connections immediately."""
        ...


@dataclass(frozen=True, slots=True)
class Fallback:
    backend: Backend
    kind: str
    """Kind of the fallback, as named in the settings."""
    target: Target
    """Rate limits, breaker and canary state of the fallback target, which several models can share."""
    price: Callable[[], Price]
    """Function that returns the current token price."""
    paths: frozenset[str]
    """Paths of the API endpoints that the fallback serves."""
    context_tokens: int | None = None
    """Context size in tokens (prompt and output together), or None if unknown."""
    max_output_tokens: int | None = None
    """Output limit in tokens to which requests are cut, or None if unknown."""
    default_max_tokens: int | None = None
    """Output limit in tokens for requests without a limit. If None, such requests are sent unchanged."""
    output_weight: float = 1.0
    """Weight of an output token in the token rate limit. A prompt token has weight 1."""
    has_canary: bool = False
    """Whether canary requests are sent to the fallback (see `Canary`)."""
    connections: Connections | None = None
    made_from: Hashable = None
    """Settings from which the backend was built. While they are unchanged, the backend is kept."""

    @property
    def id(self) -> str:
        return self.backend.id

    def takes(self, request: FallbackRequest) -> bool:
        """Return whether the request's prompt and output fit into the context of the fallback.

        If the client set no output limit, the expected output counts, because the limit sent to the fallback is cut to
        fit.
        """
        if self.context_tokens is None:
            return True
        wanted = request.expected_output_tokens if request.max_tokens is None else request.max_tokens
        if self.max_output_tokens is not None:
            wanted = min(wanted, self.max_output_tokens)
        return request.prompt_tokens + wanted <= self.context_tokens

    def output_tokens(self, request: FallbackRequest) -> float:
        """Return the number of output tokens to reserve for *request*, which is the most that it can generate.

        Without any limit this is the expected output length.
        """
        limits: list[float] = [limit for limit in (request.max_tokens, self.max_output_tokens) if limit is not None]
        if request.max_tokens is None:
            limits.append(
                request.expected_output_tokens if self.default_max_tokens is None else self.default_max_tokens
            )
        if self.context_tokens is not None:
            limits.append(max(0.0, self.context_tokens - request.prompt_tokens))
        return float(min(limits))
