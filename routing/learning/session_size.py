"""Size of sessions: the number of their requests, and the tokens that each request adds to a cache."""

from typing import Final

MEMORY: Final = 0.999
"""Factor by which each request reduces the weight of earlier requests. About the last 1,000 requests count."""
ANSWER_WEIGHT: Final = 0.02
"""Weight of one answer in the running mean of added tokens, which covers about 50 answers."""


class SessionSize:
    """Mean number of requests in a session, and mean number of tokens that a request adds to a cache.

    The number of requests follows from the share of requests that begin a session. No end of a session must be known.
    """

    def __init__(self, new_tokens: float = 256.0) -> None:
        self._requests = 0.0
        self._begun = 0.0
        self._prompt_tokens = 0.0
        self._squares = 0.0
        self.new_tokens = new_tokens
        """Tokens that a request adds to a cache: the uncached part of its prompt, and its answer."""

    def sent(self, *, begins_session: bool) -> None:
        """Learn from a request that was sent to a worker."""
        self._requests = self._requests * MEMORY + 1.0
        self._begun = self._begun * MEMORY + (1.0 if begins_session else 0.0)

    def asked(self, prompt_tokens: float) -> None:
        """Learn from the length of a prompt."""
        self._prompt_tokens = self._prompt_tokens * MEMORY + prompt_tokens
        self._squares = self._squares * MEMORY + prompt_tokens * prompt_tokens

    @property
    def long_prompt_tokens(self) -> float:
        """Mean length of the prompt that contains a random token of recent prompts, or 0 without prompts.

        Long prompts count more than in a plain mean, because sessions grow: the prompts of sessions that have just
        begun say little about the space that the sessions will need.
        """
        return self._squares / self._prompt_tokens if self._prompt_tokens else 0.0

    def answered(self, new_tokens: float) -> None:
        """Learn from a completed request, which added *new_tokens* tokens to a cache."""
        self.new_tokens += (new_tokens - self.new_tokens) * ANSWER_WEIGHT

    def turns(self, in_flight: int) -> float:
        """Return the mean number of requests in a session.

        The sessions of the *in_flight* running requests are not counted, because they have not ended.
        """
        return (self._requests + 1.0) / max(1.0, self._begun - in_flight + 1.0)
