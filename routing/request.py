"""What routing knows of a request: values only, nothing of HTTP."""

import msgspec

from cache_index import Prefix, WorkerId

LOW, NORMAL, HIGH = 0, 1, 2
"""Classes of priority: a higher one goes first before a saturated fleet."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request as the strategies see it. A msgspec Struct, at a tenth of a frozen dataclass's cost."""

    prefix: Prefix
    prompt_bytes: int
    """Length of the text that `prefix` was cut from."""
    prompt_tokens: float
    """Estimate; the engine tells the truth afterwards."""
    output_tokens: float
    """How many tokens the answer is expected to have."""
    session: str | None = None
    """What the caller says belongs together."""
    streams: bool = True
    """The first byte of a stream marks the end of its prefill; of another answer it marks the end."""
    reads_cache: bool = True
    """False where the engine would compute the whole prompt anyway (prompt logprobs)."""
    writes_cache: bool = True
    """False where the engine will not hold `prefix` afterwards: it pools, or the prompt is more than what was read."""
    pinned: WorkerId | None = None
    """The only worker that can answer: it keeps what the request goes on from."""
    exact: tuple[Prefix, ...] = ()
    """The same prompt by its exact tokens, once for each size of blocks that the workers have; empty if unknown.

    Then `prompt_tokens` is no estimate.
    """
    wanted_in_s: float | None = None
    """In how many seconds the caller wants the first token; None: it does not say."""
    strategy: str | None = None
    """Name of the strategy that it asks for; None: the model's."""
    team: str = ""
    """Whose share of a saturated fleet it takes."""
    weight: float = 1.0
    """Its cost counts 1 / *weight*: the share that its team has, beside those of other teams."""
    priority: int = NORMAL
    deadline_s: float | None = None
    """In how many seconds from its coming the caller gives up waiting for a first token; None: it does not say."""
    spill_in_s: float | None = None
    """If its first token would come later than so many seconds from its coming, it may be refused: something else than
    a worker can answer it. None: it waits."""
    divides: bool = False
    """One worker may compute its prompt and another generate its answer."""
