"""Count the cached prompt tokens of an answer to which several workers contribute.

An uninterrupted answer reports the cache hit of the worker that computed the caller's prompt. A worker that continues
the answer reports its hit on a longer prompt, which includes the answer so far.
"""


class PromptCache:
    """Number of prompt tokens in the cache of the worker that began the answer, if known."""

    __slots__ = ("_predicted_share", "_reported")

    def __init__(self) -> None:
        self._reported: int | None = None
        self._predicted_share: float | None = None

    def restart(self) -> None:
        """Discard the count of cached tokens, because another worker computes the caller's prompt again."""
        self._reported = self._predicted_share = None

    def reported(self, tokens: int) -> None:
        """Record the number *tokens* of cached tokens that the first worker reports. Most engines report it only at the
        end of the answer.
        """
        self._reported = tokens

    def predicted(self, share: float) -> None:
        """Record the fraction *share* of the prompt that the failed first worker was predicted to have cached.

        The value is a fraction, because the number of prompt tokens is only an estimate if the model's tokenizer is
        unknown.
        """
        self._predicted_share = share

    def tokens(self, prompt_tokens: int, reported: int | None) -> int | None:
        """Return the number of cached tokens in a prompt of *prompt_tokens* tokens, or None if the engines do not
        report it.

        The count *reported* of the worker that continued the answer is used only if nothing is known about the first
        worker.
        """
        if self._reported is not None:
            return self._reported
        if reported is None:
            return None
        predicted = reported if self._predicted_share is None else round(self._predicted_share * prompt_tokens)
        return min(predicted, prompt_tokens)
