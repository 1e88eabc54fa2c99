"""What is known of an answer so far, in tokens and in text."""

from array import array
from collections.abc import Sequence

MOST_IDS = 2**18
"""Tokens of prompt and answer that are kept, 1 MiB; by then an answer is not gone on with any more."""


class Transcript:
    """Ids of prompt and answer, 4 bytes each, and the text where *keeps_text*.

    *Settled* is what all text of which is out: behind it another worker can go on.
    """

    __slots__ = (
        "_before",
        "_counted",
        "_settled",
        "_settled_texts",
        "_texts",
        "ids",
        "prompt",
        "prompt_tokens",
        "tells_ids",
    )

    def __init__(self, *, keeps_text: bool) -> None:
        self.prompt: array[int] | None = None
        """Ids of the prompt that the present ids follow; None until they were told."""
        self.prompt_tokens: int | None = None
        """Of the caller's own prompt."""
        self.ids = array("I")
        self.tells_ids = True
        """All text came with its ids."""
        self._settled = 0
        self._texts: list[str] | None = [] if keeps_text else None
        self._settled_texts = 0
        self._before = 0  # tokens of text whose ids are not known, or not any more
        self._counted = 0  # events with text since then: about one for each token

    @property
    def text(self) -> str:
        """All of the settled answer; empty where it is not kept."""
        return "".join((self._texts or ())[: self._settled_texts])

    @property
    def tokens(self) -> int:
        """Of the answer so far; without ids about as many."""
        return self._before + (len(self.ids) if self.tells_ids else self._counted)

    @property
    def settled_tokens(self) -> int:
        """Of those, the ones that another worker need not generate again."""
        return self._before + (self._settled if self.tells_ids else self._counted)

    @property
    def settled(self) -> "array[int]":
        """Ids of prompt and answer that another worker goes on behind. O(tokens). Only where the prompt is known."""
        assert self.prompt is not None
        return self.prompt + self.ids[: self._settled]

    def begin(self, prompt: Sequence[int]) -> None:
        """A worker tells the ids of the prompt that it answers, as the caller asked it."""
        if len(prompt) > MOST_IDS:
            self._forget_ids()
            return
        self.prompt = array("I", prompt)
        if self.prompt_tokens is None:
            self.prompt_tokens = len(prompt)

    def follows(self, prompt: Sequence[int]) -> bool:
        """Whether *prompt* is what another worker was to go on behind. O(tokens)."""
        return array("I", prompt) == self.settled

    def add(self, ids: Sequence[int] | None, text: str, *, says: bool) -> None:
        """An event came with *ids*, or without any, and *text*; *says*: it shows a part of the answer."""
        if ids:
            self.ids.extend(ids)
            if len(self.ids) + len(self.prompt or ()) > MOST_IDS:
                self._forget_ids()
        if says:
            self._counted += 1
            if ids is None:
                self._forget_ids()
        if text and self._texts is not None:
            self._texts.append(text)

    def settle(self) -> None:
        """All text of all ids is out."""
        self._settled = len(self.ids)
        self._settled_texts = len(self._texts or ())

    def roll_back(self) -> None:
        """What is not settled will be generated again."""
        del self.ids[self._settled :]
        if self._texts is not None:
            del self._texts[self._settled_texts :]

    def restart(self) -> None:
        """All ids from here on follow another prompt, or the same once more."""
        self.ids = array("I")
        self.prompt = None
        self._settled = self._counted = 0
        self.tells_ids = True

    def leave_ids(self) -> None:
        """The answer goes on by its settled text, behind which the ids are others."""
        self._before = self.settled_tokens
        self.roll_back()
        self.restart()

    def _forget_ids(self) -> None:
        self.tells_ids = False
        self.ids = array("I")
        self.prompt = None
        self._settled = 0
