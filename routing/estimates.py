"""What a model's traffic teaches: how many bytes make a token, and how long its answers are."""


class BytesPerToken:
    """Ratio of the text we hash to the tokens that the engine counts, learnt from the usage it reports.

    4 bytes a token to begin with (English text under a common BPE); recent prompts count most.
    """

    def __init__(self, initial: float = 4.0) -> None:
        self._tokens = 1000.0
        self._bytes = initial * self._tokens
        self.ratio = initial

    def learn(self, prompt_bytes: int, prompt_tokens: int) -> None:
        """Prompts are weighted by length; a memory of about 100,000 tokens."""
        keep = 1.0 - min(0.5, prompt_tokens / 100_000)
        self._tokens = self._tokens * keep + prompt_tokens
        self._bytes = self._bytes * keep + prompt_bytes
        self.ratio = min(16.0, max(0.5, self._bytes / self._tokens))


class OutputLength:
    """Expected tokens of an answer: a running mean, and no more than the caller allows."""

    def __init__(self, initial: float = 256.0) -> None:
        self._mean = initial

    def expected(self, max_tokens: int | None) -> float:
        return self._mean if max_tokens is None else min(self._mean, float(max_tokens))

    def learn(self, tokens: int) -> None:
        """The last 20 answers or so make the mean."""
        self._mean += (tokens - self._mean) * 0.05
