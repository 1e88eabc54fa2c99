"""Prefill time of an engine as a linear function of its work, learned online by recursive least squares.

The seconds of a prefill are a fixed time per prompt, plus a time per uncached token, plus a time per uncached token for
each request that generates tokens meanwhile. Errors count relative to the prediction, because a prediction that is
wrong by 10 ms matters for a short prompt and not for a long one.
"""

from typing import Final

PREFILL_OVERHEAD_S: Final = 0.01
"""Initial estimate of the fixed prefill time per prompt, in seconds."""
MEMORY: Final = 0.97
"""Factor by which each sample reduces the weight of earlier samples. About the last 30 samples count."""
PRIOR_TOKENS: Final = 4096.0
"""Prompt length of the second prior sample. The first one is an empty prompt."""
PRIOR_DECODES: Final = 32.0
"""Running requests of a prior sample in which these requests take no time at all."""
PRIOR_WEIGHT: Final = 0.05
"""Weight of a prior sample. A measured sample has the weight 1."""
RESIDUE: Final = 1e-4
"""Share of the prior samples that never fades. It determines what the measured samples leave open."""
SMALLEST_S: Final = 1e-4
"""Shortest prefill in seconds that relative errors refer to."""
SWEEPS: Final = 8
"""Number of passes over the coefficients after each sample. The next sample continues from the result."""
THOUSANDS: Final = 1000.0
"""Unit of token counts in the equations, so that all coefficients have a similar size."""


class PrefillModel:
    """Least-squares fit of `overhead_s` + tokens * (`s_per_token` + decodes * `decode_s_per_token`).

    No coefficient is ever negative. A sample that took much longer than predicted has a bounded effect, so a few
    prompts that were held up do not spoil the fit. Each call takes constant time, and the state has ten numbers.
    """

    __slots__ = ("_b", "_prior_s", "_xx", "decode_s_per_token", "overhead_s", "s_per_token")

    def __init__(self, *, tokens_per_s: float) -> None:
        """Begin with a prior that computes *tokens_per_s* tokens per second, whatever else the engine does."""
        self.overhead_s = PREFILL_OVERHEAD_S
        self.s_per_token = 1.0 / tokens_per_s
        self.decode_s_per_token = 0.0
        """Additional seconds per token for each request that generates tokens."""
        self._xx = [0.0] * 6
        """Upper triangle of the normal equations' matrix: 00, 01, 02, 11, 12, 22."""
        self._b = [0.0] * 3
        self._prior_s = PREFILL_OVERHEAD_S + PRIOR_TOKENS / tokens_per_s
        self._add_prior(PRIOR_WEIGHT)
        self._solve()

    def predict(self, uncached_tokens: float, decodes: float = 0.0) -> float:
        """Return the predicted seconds of a prefill beside *decodes* requests that generate tokens."""
        return self.overhead_s + uncached_tokens * (self.s_per_token + decodes * self.decode_s_per_token)

    def learn(self, uncached_tokens: float, decodes: float, measured_s: float) -> None:
        """Learn from a prefill that took *measured_s* seconds."""
        for place in range(6):
            self._xx[place] *= MEMORY
        for place in range(3):
            self._b[place] *= MEMORY
        self._add(uncached_tokens, decodes, measured_s, 1.0)
        self._add_prior(PRIOR_WEIGHT * RESIDUE)
        self._solve()

    def _add_prior(self, weight: float) -> None:
        self._add(0.0, 0.0, PREFILL_OVERHEAD_S, weight)
        self._add(PRIOR_TOKENS, 0.0, self._prior_s, weight)
        x2 = PRIOR_TOKENS / THOUSANDS * PRIOR_DECODES / max(SMALLEST_S, self.predict(PRIOR_TOKENS))
        self._xx[5] += weight * x2 * x2

    def _add(self, uncached_tokens: float, decodes: float, seconds: float, weight: float) -> None:
        """Add a sample whose relative error counts *weight* times, and less the more it exceeds the prediction."""
        predicted_s = max(SMALLEST_S, self.predict(uncached_tokens, decodes))
        weight /= predicted_s * max(predicted_s, seconds)
        x1 = uncached_tokens / THOUSANDS
        x2 = x1 * decodes
        xx, b = self._xx, self._b
        xx[0] += weight
        xx[1] += weight * x1
        xx[2] += weight * x2
        xx[3] += weight * x1 * x1
        xx[4] += weight * x1 * x2
        xx[5] += weight * x2 * x2
        b[0] += weight * seconds
        b[1] += weight * x1 * seconds
        b[2] += weight * x2 * seconds

    def _solve(self) -> None:
        """Move the coefficients to the best fit without negative ones, by minimizing over one of them at a time."""
        a00, a01, a02, a11, a12, a22 = self._xx
        b0, b1, b2 = self._b
        c0, c1, c2 = self.overhead_s, self.s_per_token * THOUSANDS, self.decode_s_per_token * THOUSANDS
        for _ in range(SWEEPS):
            c1 = max(0.0, (b1 - a01 * c0 - a12 * c2) / a11)
            c0 = max(0.0, (b0 - a01 * c1 - a02 * c2) / a00)
            c2 = max(0.0, (b2 - a02 * c0 - a12 * c1) / a22)
        self.overhead_s, self.s_per_token, self.decode_s_per_token = c0, c1 / THOUSANDS, c2 / THOUSANDS
