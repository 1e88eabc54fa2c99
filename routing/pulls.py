"""Pulls: a worker loads the missing blocks of a prompt from the host memory of another worker.

1. A pull makes a copy. The copy evicts as much as computed blocks would (`Candidate.evicts_s`), and the original is
   soon of no use, but still takes space. While memory is short, pulls therefore cost more than they save: in replays of
   agents whose contexts fill all host tiers, pulls without a limit made the mean time to first token 30 % longer. A
   worker pulls only if the copy and its live sessions fit into its cache, even if the sessions grow.
2. The first request of a session never pulls. It decides where the session stays, and sessions with a common beginning
   need less memory on one worker than on several.
3. A pull must be faster than to compute the blocks.
"""

from collections.abc import Mapping
from typing import Final

from cache_index import WorkerId
from cache_index.value import Value
from routing.loads import Loads
from routing.pull import Pull
from routing.sessions import Sessions
from routing.worker import Worker

COPIES: Final = 2.0
"""Number of places in which the sessions of a worker are assumed to need space. A session that moves by a pull leaves a
copy behind that takes space until it is evicted.
"""


class Missing(Value):
    """Part of a prompt that a worker lacks."""

    __match_args__ = ("begin_tokens", "end_tokens")
    __slots__ = __match_args__

    def __init__(self, begin_tokens: float, end_tokens: float) -> None:
        self.begin_tokens: Final = begin_tokens
        """Number of leading tokens that the worker holds."""
        self.end_tokens: Final = end_tokens
        """Number of leading tokens that can come from a cache at most."""


def may_send(worker: Worker) -> bool:
    """Return whether other workers can pull blocks from *worker*, which can be draining meanwhile."""
    return worker.is_up and not worker.is_asleep and worker.is_confirmed


class Peers:
    """Workers that could send cached blocks of one prompt, with the decision which of them to pull from.

    *tokens* has the leading tokens of the prompt that each worker holds in host memory, in blocks of *block_tokens*
    tokens. *sessions* knows the live sessions of each of the *workers* workers.
    """

    def __init__(self, tokens: Mapping[WorkerId, float], block_tokens: int, sessions: Sessions, workers: int) -> None:
        # The second is for the worker that is itself the first.
        self._longest = sorted(tokens.items(), key=lambda each: each[1], reverse=True)[:2]
        self._block_tokens = block_tokens
        self._sessions = sessions
        self._workers = workers

    def pull(self, worker: Worker, missing: Missing, capacity_tokens: float, prefill_s_per_token: float) -> Pull | None:
        """Return what *worker* should pull, or None if it should compute all that is *missing*.

        The cache of the worker has *capacity_tokens* tokens, and it computes a token in *prefill_s_per_token* seconds.
        """
        source = next((each for each in self._longest if each[0] != worker.id), None)
        if source is None:
            return None
        blocks = int(min(source[1], missing.end_tokens) - missing.begin_tokens) // self._block_tokens
        tokens = float(blocks * self._block_tokens)
        needed_tokens = self._sessions.needed_tokens(worker.id, self._workers)
        if tokens <= 0.0 or COPIES * needed_tokens + tokens > capacity_tokens:
            return None
        load_s = worker.speed.load_s(Loads(peer=tokens))
        return Pull(source[0], tokens, load_s) if load_s < tokens * prefill_s_per_token else None
