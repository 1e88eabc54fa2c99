"""What tokens cost."""

from typing import Self

MILLION = 1_000_000
HOUR_S = 3600


class Price:
    """US dollars per token: prices are listed per million, and multiplied once per request. Never changed."""

    __slots__ = ("cached_input_usd", "input_usd", "output_usd")

    def __init__(self, input_usd: float = 0.0, cached_input_usd: float = 0.0, output_usd: float = 0.0) -> None:
        self.input_usd = input_usd
        """Of a prompt token that was computed."""
        self.cached_input_usd = cached_input_usd
        """Of a prompt token that was cached."""
        self.output_usd = output_usd

    @classmethod
    def per_million(cls, *, input_usd: float, cached_input_usd: float | None, output_usd: float) -> Self:
        """From a list of prices; None: what is cached costs as much as what is not."""
        cached = input_usd if cached_input_usd is None else cached_input_usd
        return cls(input_usd / MILLION, cached / MILLION, output_usd / MILLION)

    @classmethod
    def per_gpu_hour(cls, usd: float, *, prefill_s_per_token: float, decode_s_per_token: float) -> Self:
        """From what an hour of a worker costs, and how long the worker takes for a token at present.

        Who asks pays for the time that the worker spends on the request: *prefill_s_per_token* for each prompt token
        that it computes, nothing for one that it has, and *decode_s_per_token* for each that it generates. That is
        the time between two tokens of a stream divided by the streams that run beside each other, as they share it.
        Hours in which a worker has nothing to do are on nobody's account: sums are below the bill by the idle share.
        """
        per_s = usd / HOUR_S
        return cls(per_s * prefill_s_per_token, 0.0, per_s * decode_s_per_token)

    def cost_usd(self, prompt: float, cached: float, completion: float) -> float:
        """Of a request with *prompt* tokens, *cached* of them, that was answered with *completion* tokens."""
        return (prompt - cached) * self.input_usd + cached * self.cached_input_usd + completion * self.output_usd

    def saved_usd(self, cached: float) -> float:
        """What *cached* tokens would have cost more, had they not been."""
        return cached * (self.input_usd - self.cached_input_usd)
