"""Record the tokens and text of an answer so far."""

from array import array
from collections.abc import Sequence

MAX_IDS = 2**18
"""Maximum number of token ids to keep, which take 1 MiB. Longer answers are not continued."""


class Transcript:
    """Token ids of a prompt and its answer, 4 bytes each, and the answer's text if *keeps_text* is true.

    Tokens are *settled* when their whole text has been sent. Another worker can continue after settled tokens.
    """

    __slots__ = (
        "_before",
        "_counted",
        "_settled",
        "_settled_texts",
        "_texts",
        "has_ids",
        "ids",
        "prompt",
        "prompt_tokens",
    )

    def __init__(self, *, keeps_text: bool) -> None:
        self.prompt: array[int] | None = None
        """Token ids of the current worker's prompt, or None until the worker reports them."""
        self.prompt_tokens: int | None = None
        """Number of tokens in the caller's prompt, or None until a worker reports them."""
        self.ids = array("I")
        self.has_ids = True
        """Whether token ids have arrived for all text of the answer."""
        self._settled = 0
        self._texts: list[str] | None = [] if keeps_text else None
        self._settled_texts = 0
        self._before = 0  # tokens of text whose ids are not known any more
        self._counted = 0  # events with text since then, about one for each token

    @property
    def text(self) -> str:
        """Text of the answer that no worker has to generate again, or an empty string if no text is kept."""
        return "".join((self._texts or ())[: self._settled_texts])

    @property
    def tokens(self) -> int:
        """Number of tokens of the answer so far. The number is approximate if token ids are unknown."""
        return self._before + (len(self.ids) if self.has_ids else self._counted)

    @property
    def settled_tokens(self) -> int:
        """Number of tokens of the answer that another worker does not have to generate again."""
        return self._before + (self._settled if self.has_ids else self._counted)

    @property
    def settled(self) -> "array[int]":
        """Token ids after which another worker continues. The prompt's token ids must be known. O(tokens)."""
        assert self.prompt is not None
        return self.prompt + self.ids[: self._settled]

    def begin(self, prompt: Sequence[int]) -> None:
        """Record the token ids that a worker reports for the caller's prompt."""
        if len(prompt) > MAX_IDS:
            self._forget_ids()
            return
        self.prompt = array("I", prompt)
        if self.prompt_tokens is None:
            self.prompt_tokens = len(prompt)

    def follows(self, prompt: Sequence[int]) -> bool:
        """Return whether *prompt* equals the token ids after which another worker was asked to continue. O(tokens)."""
        return array("I", prompt) == self.settled

    def add(self, ids: Sequence[int] | None, text: str, *, says: bool) -> None:
        """Add an event with the text *text* and the token ids *ids* (None without ids). If *says* is true, the event
        shows a part of the answer.
        """
        if ids:
            self.ids.extend(ids)
            if len(self.ids) + len(self.prompt or ()) > MAX_IDS:
                self._forget_ids()
        if says:
            self._counted += 1
            if ids is None:
                self._forget_ids()
        if text and self._texts is not None:
            self._texts.append(text)

    def settle(self) -> None:
        """Mark all tokens as settled, because their complete text has been sent."""
        self._settled = len(self.ids)
        self._settled_texts = len(self._texts or ())

    def roll_back(self) -> None:
        """Drop the tokens and text that are not settled, because another worker will generate them again."""
        del self.ids[self._settled :]
        if self._texts is not None:
            del self._texts[self._settled_texts :]

    def restart(self) -> None:
        """Drop all token ids, because the next tokens belong to a new prompt or to a repeated answer."""
        self.ids = array("I")
        self.prompt = None
        self._settled = self._counted = 0
        self.has_ids = True

    def leave_ids(self) -> None:
        """Drop all token ids but keep the settled text, because the answer continues by text with different token
        ids.
        """
        self._before = self.settled_tokens
        self.roll_back()
        self.restart()

    def _forget_ids(self) -> None:
        self.has_ids = False
        self.ids = array("I")
        self.prompt = None
        self._settled = 0
