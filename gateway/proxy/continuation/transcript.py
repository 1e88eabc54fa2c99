"""The answer so far, in tokens and in text."""

from array import array
from collections.abc import Sequence

MAX_IDS = 2**18
"""Largest number of token ids kept, 1 MiB. Longer answers are not continued."""


class Transcript:
    """Ids of prompt and answer, 4 bytes each, and the text if *keeps_text*.

    Tokens are *settled* when all their text was sent: another worker can go on after them.
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
        """Ids of the prompt of the current worker; None until it reports them."""
        self.prompt_tokens: int | None = None
        """Number of tokens of the caller's prompt."""
        self.ids = array("I")
        self.has_ids = True
        """All text has come with its ids."""
        self._settled = 0
        self._texts: list[str] | None = [] if keeps_text else None
        self._settled_texts = 0
        self._before = 0  # tokens of text whose ids are not known any more
        self._counted = 0  # events with text since then, about one for each token

    @property
    def text(self) -> str:
        """The settled text of the answer; empty if no text is kept."""
        return "".join((self._texts or ())[: self._settled_texts])

    @property
    def tokens(self) -> int:
        """Number of tokens of the answer so far, approximate without ids."""
        return self._before + (len(self.ids) if self.has_ids else self._counted)

    @property
    def settled_tokens(self) -> int:
        """Number of tokens that another worker need not generate again."""
        return self._before + (self._settled if self.has_ids else self._counted)

    @property
    def settled(self) -> "array[int]":
        """The ids after which another worker goes on. O(tokens). The ids of the prompt must be known."""
        assert self.prompt is not None
        return self.prompt + self.ids[: self._settled]

    def begin(self, prompt: Sequence[int]) -> None:
        """Note the ids that a worker reports for the caller's *prompt*."""
        if len(prompt) > MAX_IDS:
            self._forget_ids()
            return
        self.prompt = array("I", prompt)
        if self.prompt_tokens is None:
            self.prompt_tokens = len(prompt)

    def follows(self, prompt: Sequence[int]) -> bool:
        """Return whether *prompt* has the ids after which another worker was to go on. O(tokens)."""
        return array("I", prompt) == self.settled

    def add(self, ids: Sequence[int] | None, text: str, *, says: bool) -> None:
        """Add an event with *text*, and with *ids* if it has any; *says*: it shows a part of the answer."""
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
        """Note that all text of all ids was sent."""
        self._settled = len(self.ids)
        self._settled_texts = len(self._texts or ())

    def roll_back(self) -> None:
        """Drop everything that is not settled: it is generated again."""
        del self.ids[self._settled :]
        if self._texts is not None:
            del self._texts[self._settled_texts :]

    def restart(self) -> None:
        """Drop all ids: the next ones follow another prompt, or the same one again."""
        self.ids = array("I")
        self.prompt = None
        self._settled = self._counted = 0
        self.has_ids = True

    def leave_ids(self) -> None:
        """Drop all ids, and keep the settled text: the answer goes on by text, with other ids."""
        self._before = self.settled_tokens
        self.roll_back()
        self.restart()

    def _forget_ids(self) -> None:
        self.has_ids = False
        self.ids = array("I")
        self.prompt = None
        self._settled = 0
