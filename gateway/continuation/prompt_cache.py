"""The cached tokens of the prompt of one answer, which several workers may have given.

The uncut answer would have reported the hit of the worker that computed the prompt as the caller asked it. A worker
that goes on reports its own hit, on another prompt: that of the caller and the answer so far.
"""


class PromptCache:
    """The hit of the worker that began the answer, as far as it is known."""

    __slots__ = ("_predicted_share", "_reported")

    def __init__(self) -> None:
        self._reported: int | None = None
        self._predicted_share: float | None = None

    def restart(self) -> None:
        """Another worker computes the prompt as the caller asked it."""
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

        *reported* is what the worker that went on says. It counts only where nothing is known of the one that began.
        """
        if self._reported is not None:
            return self._reported
        if reported is None:
            return None
        predicted = reported if self._predicted_share is None else round(self._predicted_share * prompt_tokens)
        return min(predicted, prompt_tokens)
