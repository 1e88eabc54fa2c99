"""Token prices in US dollars."""

from typing import Self

MILLION = 1_000_000
HOUR_S = 3600


class Price:
    """Immutable token prices of a model, in US dollars per token. Price lists give prices per million tokens."""

    __slots__ = ("cached_input_usd", "input_usd", "output_usd")

    def __init__(self, input_usd: float = 0.0, cached_input_usd: float = 0.0, output_usd: float = 0.0) -> None:
        self.input_usd = input_usd
        """Price in US dollars of a prompt token that the worker computes."""
        self.cached_input_usd = cached_input_usd
        """Price in US dollars of a prompt token that is read from the cache."""
        self.output_usd = output_usd

    @property
    def is_set(self) -> bool:
        """Whether any token has a price. Without a configured price, all tokens are free."""
        return self.input_usd > 0.0 or self.cached_input_usd > 0.0 or self.output_usd > 0.0

    @classmethod
    def per_million(cls, *, input_usd: float, cached_input_usd: float | None, output_usd: float) -> Self:
        """Return token prices from a price list in US dollars per million tokens. If *cached_input_usd* is None, cached
        tokens cost as much as other prompt tokens.
        """
        cached = input_usd if cached_input_usd is None else cached_input_usd
        return cls(input_usd / MILLION, cached / MILLION, output_usd / MILLION)

    @classmethod
    def per_gpu_hour(cls, usd: float, *, prefill_s_per_token: float, decode_s_per_token: float) -> Self:
        """Return token prices as shares of the worker's hourly price *usd*, at the worker's current speed.

        A caller pays for the time that the worker spends on the request: *prefill_s_per_token* for each prompt token
        that the worker computes, nothing for a cached token, and *decode_s_per_token* for each generated token. The
        decode time is the time between two tokens of a stream, divided by the number of concurrent streams. Idle hours
        are charged to no account, so the sum of all costs is lower than the bill by the idle share.
        """
        per_s = usd / HOUR_S
        return cls(per_s * prefill_s_per_token, 0.0, per_s * decode_s_per_token)

    def cost_usd(self, prompt: float, cached: float, completion: float) -> float:
        """Return the cost in US dollars of a request with *prompt* tokens, of which *cached* tokens were in the cache,
        and *completion* tokens.
        """
        return (prompt - cached) * self.input_usd + cached * self.cached_input_usd + completion * self.output_usd

    def saved_usd(self, cached: float) -> float:
        """Return how many US dollars more the *cached* tokens would have cost without the cache."""
        return cached * (self.input_usd - self.cached_input_usd)
