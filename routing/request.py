"""Request data for routing, as plain values without anything specific to HTTP."""

from typing import Final

from cache_index import Prefix, WorkerId
from cache_index.native import mypyc_attr
from cache_index.value import Value

BATCH, LOW, NORMAL, HIGH = -1, 0, 1, 2
"""Priority classes of requests. If all workers are busy, requests of a higher class go first.

The class BATCH is for lines of batches, which wait as long as any other request waits.
"""


@mypyc_attr(acyclic=True)
class Request(Value):
    """Request data that routing strategies see.

    *output_tokens* is the expected number of tokens in the answer. *session* is the name that the caller gives to a
    session of requests that belong together. The cost of the request is divided by *weight*, the weight of its team.
    *yields_in_s* is the mean number of seconds for which a request that comes later waits until the sender interrupts
    the prefill of this request for it. It is None if the sender does not interrupt this request.
    """

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
        "pulls",
        "allowed",
        "yields_in_s",
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
        pulls: bool = False,
        allowed: frozenset[WorkerId] | None = None,
        yields_in_s: float | None = None,
    ) -> None:
        self.prefix: Final = prefix
        self.prompt_bytes: Final = prompt_bytes
        """Length in bytes of the prompt text from which `prefix` was computed."""
        self.prompt_tokens: Final = prompt_tokens
        """Number of prompt tokens, which is an estimate unless `exact` is known."""
        self.output_tokens: Final = output_tokens
        self.session: Final = session
        self.streams: Final = streams
        """Whether the answer is streamed, so that its first byte marks the end of the prefill."""
        self.reads_cache: Final = reads_cache
        """Whether the engine can read the prompt from its cache, which it does not do for prompt logprobs."""
        self.writes_cache: Final = writes_cache
        """Whether the engine caches `prefix`. This is false, for example, if the model only computes embeddings."""
        self.pinned: Final = pinned
        """The only worker that can answer the request, because it stores the response that the request continues."""
        self.exact: Final = exact
        """Hashes of the prompt's exact tokens, once per block size of the workers. The sequence is empty if unknown."""
        self.wanted_in_s: Final = wanted_in_s
        """Seconds after arrival within which the caller wants the first token, or None if not specified."""
        self.strategy: Final = strategy
        """Name of the routing strategy that the request selects, or None for the model's strategy."""
        self.team: Final = team
        """Team whose fair-share account is charged for the request when all workers are busy."""
        self.weight: Final = weight
        self.priority: Final = priority
        self.deadline_s: Final = deadline_s
        """Seconds after arrival at which the caller stops waiting for a first token, or None if not specified."""
        self.spill_in_s: Final = spill_in_s
        """Seconds after arrival from which a fallback can answer the request, or None to wait for this fleet."""
        self.divides: Final = divides
        """Whether one worker is allowed to compute the prompt while another worker generates the answer."""
        self.pulls: Final = pulls
        """Whether the worker is allowed to pull cached blocks from the host memory of another worker."""
        self.allowed: Final = allowed
        """The only workers that a proxy in front of the gateway accepts for the request, or None if it accepts all."""
        self.yields_in_s: Final = yields_in_s
