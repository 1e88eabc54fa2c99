"""Tokens into text while they come, as vLLM's detokenizer does it.

A character may be spread over several tokens. While the last one is not complete, nothing is shown of it, nor of what
stands before it in the same token; what is never completed is never shown. So the pieces of a stream are the whole
text, and each is whole characters.
"""

from simulator.tokens import TokenSequence
from simulator.vocabulary import SIZE, is_mark, token_bytes

_LOOK_BACK = 4  # tokens: no character has more bytes
_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """State of one answer. What *prompt* left incomplete belongs to the answer that completes it.

    A prompt may have ids that are not in the vocabulary, for what is no text; they are passed over.
    """

    def __init__(self, prompt: TokenSequence) -> None:
        self._held = b""
        for token in prompt.ids[-_LOOK_BACK:]:
            if token < SIZE:
                self.feed(token)

    def feed(self, token: int) -> str:
        """Return the text that can be shown now that *token* has come; marks of the template never can.

        Raises:
            ValueError: the token is not in the vocabulary.
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
