"""The cached tokens of the prompt of one answer, which several workers may have given.

An uncut answer would report the hit of the worker that computed the caller's prompt. A worker that goes on reports its
hit on another prompt: that of the caller and the answer so far.
"""


class PromptCache:
    """The cached tokens of the worker that began the answer, as far as they are known."""

    __slots__ = ("_predicted_share", "_reported")

    def __init__(self) -> None:
        self._reported: int | None = None
        self._predicted_share: float | None = None

    def restart(self) -> None:
        """Forget them: another worker computes the caller's prompt."""
        self._reported = self._predicted_share = None

    def reported(self, tokens: int) -> None:
        """Note that the worker that began reports *tokens*. Engines do so with the usage, mostly at the end only."""
        self._reported = tokens

    def predicted(self, share: float) -> None:
        """Note that the worker that began was expected to have this *share* of the prompt, and is lost.

        A share, because the prompt's tokens are an estimate where the model's tokenizer is not known.
        """
        self._predicted_share = share

    def tokens(self, prompt_tokens: int, reported: int | None) -> int | None:
        """Return the cached tokens of a prompt of *prompt_tokens*; None where the engines do not report any.

        *reported* is the count of the worker that went on, used only if nothing is known of the one that began.
        """
        if self._reported is not None:
            return self._reported
        if reported is None:
            return None
        predicted = reported if self._predicted_share is None else round(self._predicted_share * prompt_tokens)
        return min(predicted, prompt_tokens)
