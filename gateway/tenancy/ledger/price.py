"""Prices of tokens."""

from typing import Self

MILLION = 1_000_000
HOUR_S = 3600


class Price:
    """US dollars per token. Prices are listed per million, and multiplied once per request. Never changed."""

    __slots__ = ("cached_input_usd", "input_usd", "output_usd")

    def __init__(self, input_usd: float = 0.0, cached_input_usd: float = 0.0, output_usd: float = 0.0) -> None:
        self.input_usd = input_usd
        """Price of a computed prompt token."""
        self.cached_input_usd = cached_input_usd
        """Price of a cached prompt token."""
        self.output_usd = output_usd

    @classmethod
    def per_million(cls, *, input_usd: float, cached_input_usd: float | None, output_usd: float) -> Self:
        """Return the price by a price list. None: cached tokens cost as much as others."""
        cached = input_usd if cached_input_usd is None else cached_input_usd
        return cls(input_usd / MILLION, cached / MILLION, output_usd / MILLION)

    @classmethod
    def per_gpu_hour(cls, usd: float, *, prefill_s_per_token: float, decode_s_per_token: float) -> Self:
        """Return the price of a token as its share of a worker's hour, at the worker's current speed.

        A caller pays for the time that the worker spends on the request: *prefill_s_per_token* for each prompt token
        that it computes, nothing for a cached one, and *decode_s_per_token* for each generated one. The latter is the
        time between two tokens of a stream divided by the number of concurrent streams. Idle hours belong to no
        account, so sums are below the bill by the idle share.
        """
        per_s = usd / HOUR_S
        return cls(per_s * prefill_s_per_token, 0.0, per_s * decode_s_per_token)

    def cost_usd(self, prompt: float, cached: float, completion: float) -> float:
        """Return the cost of a request with *prompt* tokens, *cached* of them, and *completion* tokens."""
        return (prompt - cached) * self.input_usd + cached * self.cached_input_usd + completion * self.output_usd

    def saved_usd(self, cached: float) -> float:
        """Return how much more *cached* tokens would have cost without the cache."""
        return cached * (self.input_usd - self.cached_input_usd)
