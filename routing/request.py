"""A request as routing knows it: values only, nothing of HTTP."""

from typing import Final

from cache_index import Prefix, WorkerId
from cache_index.value import Value

LOW, NORMAL, HIGH = 0, 1, 2
"""Priority classes: on a saturated fleet, a higher one goes first."""


class Request(Value):
    """One request as the strategies see it."""

    __match_args__ = (
        "prefix",
        "prompt_bytes",
        "prompt_tokens",
        "output_tokens",
        "session",
        "streams",
        "reads_cache",
        "writes_cache",
        "pinned",
        "exact",
        "wanted_in_s",
        "strategy",
        "team",
        "weight",
        "priority",
        "deadline_s",
        "spill_in_s",
        "divides",
    )
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        prefix: Prefix,
        prompt_bytes: int,
        prompt_tokens: float,
        output_tokens: float,
        session: str | None = None,
        streams: bool = True,
        reads_cache: bool = True,
        writes_cache: bool = True,
        pinned: WorkerId | None = None,
        exact: tuple[Prefix, ...] = (),
        wanted_in_s: float | None = None,
        strategy: str | None = None,
        team: str = "",
        weight: float = 1.0,
        priority: int = NORMAL,
        deadline_s: float | None = None,
        spill_in_s: float | None = None,
        divides: bool = False,
    ) -> None:
        self.prefix: Final = prefix
        self.prompt_bytes: Final = prompt_bytes
        """Length of the text that `prefix` was cut from."""
        self.prompt_tokens: Final = prompt_tokens
        """Estimate, unless `exact` is known; the engine reports the actual number afterwards."""
        self.output_tokens: Final = output_tokens
        """Expected tokens of the answer."""
        self.session: Final = session
        """Name that the caller gives to requests that belong together."""
        self.streams: Final = streams
        """Whether the first byte marks the end of the prefill; otherwise it marks the end of the answer."""
        self.reads_cache: Final = reads_cache
        """False if the engine computes the whole prompt in any case (prompt logprobs)."""
        self.writes_cache: Final = writes_cache
        """False if the engine will not hold `prefix` afterwards: it pools, or not all of the prompt was read."""
        self.pinned: Final = pinned
        """The only worker that can answer: it keeps the response that the request continues."""
        self.exact: Final = exact
        """The prompt by its exact tokens, once for each block size of the workers; empty if unknown."""
        self.wanted_in_s: Final = wanted_in_s
        """Seconds after its arrival at which the caller wants the first token. None: not specified."""
        self.strategy: Final = strategy
        """Name of the strategy that it asks for. None: the model's."""
        self.team: Final = team
        """Team that is charged for it on a saturated fleet."""
        self.weight: Final = weight
        """Weight of its team: its cost is divided by it."""
        self.priority: Final = priority
        self.deadline_s: Final = deadline_s
        """Seconds after its arrival at which the caller stops waiting for a first token. None: not specified."""
        self.spill_in_s: Final = spill_in_s
        """Seconds after its arrival from which a first token is so late that it may be refused, because a fallback can
        answer it. None: it waits."""
        self.divides: Final = divides
        """Whether one worker may compute its prompt and another generate its answer."""
