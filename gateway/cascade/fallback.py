"""One tier of a model's cascade: whom to ask, what it takes, and what it costs."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from gateway.backends.backend import Backend
from gateway.cascade.need import Need
from gateway.cascade.target import Kind, Target
from gateway.ledger.price import Price


class Connections(Protocol):
    """Those of a backend that has its own."""

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
    kind: Kind
    target: Target
    """What it leads to, which several models may share."""
    price: Callable[[], Price]
    """Of its tokens, at this moment."""
    paths: frozenset[str]
    """Of the endpoints that it has."""
    context_tokens: int | None = None
    """Most prompt and output tokens together; None: not known."""
    max_output_tokens: int | None = None
    """Most output tokens; a request for more is cut to them. None: not known."""
    default_max_tokens: int | None = None
    """The output limit that it is sent where the caller set none; None: it is sent none."""
    output_weight: float = 1.0
    """What an output token counts in its rate, beside one of the prompt."""
    connections: Connections | None = None
    made_from: Hashable = None
    """What its backend was made from: one that is to be made from the same need not be made."""

    @property
    def id(self) -> str:
        return self.backend.id

    def takes(self, need: Need) -> bool:
        """Whether prompt and output fit.

        Of a caller that set no limit the output counts as expected: the limit it is sent is cut to what is left.
        """
        if self.context_tokens is None:
            return True
        wanted = need.expected_output_tokens if need.max_tokens is None else need.max_tokens
        if self.max_output_tokens is not None:
            wanted = min(wanted, self.max_output_tokens)
        return need.prompt_tokens + wanted <= self.context_tokens

    def output_tokens(self, need: Need) -> float:
        """Most that its answer can have: what is reserved.

        Where neither the caller nor the fallback has a limit, what is expected has to do.
        """
        limits: list[float] = [limit for limit in (need.max_tokens, self.max_output_tokens) if limit is not None]
        if need.max_tokens is None:
            limits.append(need.expected_output_tokens if self.default_max_tokens is None else self.default_max_tokens)
        if self.context_tokens is not None:
            limits.append(max(0.0, self.context_tokens - need.prompt_tokens))
        return float(min(limits))
