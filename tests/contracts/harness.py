"""What the `Backend` contract suite needs from the far side of a backend.

A harness stages one behavior of the remote side (a worker, or a stand-in for Bedrock) and hands out a backend that
talks to it over a real socket. What the remote side says is given as words; putting them on the wire in its own form is
the harness's business. What comes out of the backend is the same for all: JSON or server-sent events in OpenAI's shape.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from gateway.backends.backend import Backend


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers a call that does not stream with one message of the assistant, finish reason ``stop``."""

    text: str


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams *words*, each in a piece of its own, then ends as a stream should."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswersStatus:
    """Answers with an error status (400, 429, 500 or 503) and a short reason, in the remote side's own error form."""

    status: int


@dataclass(frozen=True, slots=True)
class Refuses:
    """No one listens at the address."""


@dataclass(frozen=True, slots=True)
class HangsAfter:
    """Streams *words*, then stays silent with the connection open; with no words not even a status comes."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BreaksAfter:
    """Streams *words*, then cuts the connection; with no words not even a status comes."""

    words: tuple[str, ...] = ()


Behavior = Answers | Streams | AnswersStatus | Refuses | HangsAfter | BreaksAfter


class Stage(Protocol):
    """A backend and what its remote side has seen."""

    @property
    def backend(self) -> Backend: ...

    @property
    def calls_seen(self) -> int:
        """Complete requests that the remote side has received."""
        ...

    async def caller_left(self, *, within_s: float) -> bool:
        """Whether the remote side saw its caller go away before the answer was complete; waits up to *within_s*."""
        ...


class Harness(Protocol):
    """One kind of backend under test."""

    @property
    def name(self) -> str:
        """Shown as the test's parameter."""
        ...

    def stage(
        self, behavior: Behavior, *, first_byte_s: float | None = None, idle_s: float | None = None
    ) -> AbstractAsyncContextManager[Stage]:
        """Start the remote side and a backend with these timeouts (None: the backend's default, longer than any test).

        Leaving closes both. A timeout may be late by 0.3 s.
        """
        ...
