"""What routing knows of a request: values only, nothing of HTTP."""

from typing import Final

from cache_index import Prefix, WorkerId
from cache_index.value import Value

LOW, NORMAL, HIGH = 0, 1, 2
"""Classes of priority: a higher one goes first before a saturated fleet."""


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
        """Estimate; the engine tells the truth afterwards."""
        self.output_tokens: Final = output_tokens
        """How many tokens the answer is expected to have."""
        self.session: Final = session
        """What the caller says belongs together."""
        self.streams: Final = streams
        """The first byte of a stream marks the end of its prefill; of another answer it marks the end."""
        self.reads_cache: Final = reads_cache
        """False where the engine would compute the whole prompt anyway (prompt logprobs)."""
        self.writes_cache: Final = writes_cache
        """False where the engine will not hold `prefix` afterwards: it pools, or not all of the prompt was read."""
        self.pinned: Final = pinned
        """The only worker that can answer: it keeps what the request goes on from."""
        self.exact: Final = exact
        """The same prompt by its exact tokens, once for each size of blocks that the workers have; empty if unknown.

        Then `prompt_tokens` is no estimate.
        """
        self.wanted_in_s: Final = wanted_in_s
        """In how many seconds the caller wants the first token; None: it does not say."""
        self.strategy: Final = strategy
        """Name of the strategy that it asks for; None: the model's."""
        self.team: Final = team
        """Whose share of a saturated fleet it takes."""
        self.weight: Final = weight
        """Its cost counts 1 / *weight*: the share that its team has, beside those of other teams."""
        self.priority: Final = priority
        self.deadline_s: Final = deadline_s
        """In how many seconds from its coming the caller gives up waiting for a first token; None: it does not say."""
        self.spill_in_s: Final = spill_in_s
        """If its first token would come later than so many seconds from its coming, it may be refused: something else
        than a worker can answer it. None: it waits."""
        self.divides: Final = divides
        """One worker may compute its prompt and another generate its answer."""
