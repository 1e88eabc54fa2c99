"""Incremental detokenizer that turns tokens into text as they arrive, like vLLM's detokenizer.

A character may be spread over several tokens. Until the character is complete, the whole token in which it starts is
held back. A character that is never completed is never shown. The pieces of a stream thus add up to the whole text, and
each piece consists of whole characters.
"""

from simulator.tokens import TokenSequence
from simulator.vocabulary import SIZE, is_mark, token_bytes

_LOOK_BACK = 4  # tokens: no character has more bytes
_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """Detokenizer of one answer. A character that *prompt* leaves incomplete appears in the answer that completes it.

    A prompt may contain ids outside the vocabulary for content that is not text. The detokenizer skips them.
    """

    def __init__(self, prompt: TokenSequence) -> None:
        self._held = b""
        for token in prompt.ids[-_LOOK_BACK:]:
            if token < SIZE:
                self.feed(token)

    def feed(self, token: int) -> str:
        """Return the text that can be shown after *token*. Marks of the chat template are never shown.

        Raises:
            ValueError: if the token is not in the vocabulary.
        """
        if is_mark(token):
            self._held = b""
            return ""
        held = self._held + token_bytes(token)
        text = held.decode("utf-8", "replace")
        if text.endswith(_INCOMPLETE):
            self._held = held
            return ""
        self._held = b""
        return text
