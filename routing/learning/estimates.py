"""Estimates learned from a model's traffic: bytes of text per token, and answer length."""


class BytesPerToken:
    """Bytes of hashed text per token, learned from the usage that engines report.

    The initial estimate is 4 bytes per token, as for English text with a common BPE tokenizer. Recent prompts have the
    most weight.
    """

    def __init__(self, initial: float = 4.0) -> None:
        self._tokens = 1000.0
        self._bytes = initial * self._tokens
        self.ratio = initial

    def learn(self, prompt_bytes: int, prompt_tokens: int) -> None:
        """Learn from a prompt, weighted by the prompt's length. The estimate covers roughly the last 100,000 tokens."""
        keep = 1.0 - min(0.5, prompt_tokens / 100_000)
        self._tokens = self._tokens * keep + prompt_tokens
        self._bytes = self._bytes * keep + prompt_bytes
        self.ratio = min(16.0, max(0.5, self._bytes / self._tokens))


class OutputLength:
    """Expected number of tokens in an answer: a running mean, but at most the caller's limit."""

    def __init__(self, initial: float = 256.0) -> None:
        self._mean = initial

    def expected(self, max_tokens: int | None) -> float:
        return self._mean if max_tokens is None else min(self._mean, float(max_tokens))

    def learn(self, tokens: int) -> None:
        """Learn from the length of an answer. The running mean covers about 20 answers."""
        self._mean += (tokens - self._mean) * 0.05
