"""What the simulated model says: made-up words that depend on every token of the prompt, and on nothing else.

1. The next token is a function of all tokens before it, prompt and answer alike. So a prompt that ends with the first k
   tokens of an answer gets the rest of that same answer, as with a greedy real model.
2. Every word belongs to one position of an answer (0 to 255), so that where an answer stands, and hence when it may
   end, can be read off the last token alone.
3. An answer ends by itself after 16 to 256 words, with a token that has no text.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from gateway.simulator.tokens import END_OF_ANSWER, TOKEN_BYTES, TokenSequence

FinishReason = Literal["stop", "length"]

_POSITIONS = 256
_WORDS_PER_POSITION = 5
_MIN_WORDS = 16
_ENDING_ONE_IN = 48  # an answer has about 60 words in the mean, as a short chat turn does
_SHUFFLE = 787  # coprime to the number of words, so that neighbours in the table do not look alike


def _word(index: int) -> bytes:
    consonants, vowels = "bdfghjklmnprstvz", "aeiou"
    index = index * _SHUFFLE % (_POSITIONS * _WORDS_PER_POSITION)
    return f"{consonants[index // 80]}{vowels[index // 16 % 5]}{consonants[index % 16]} ".encode()


_WORDS = [_word(index) for index in range(_POSITIONS * _WORDS_PER_POSITION)]
_POSITION = {word: index // _WORDS_PER_POSITION for index, word in enumerate(_WORDS)}


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: TokenSequence
    finish_reason: FinishReason


def answer(
    prompt: TokenSequence, *, max_tokens: int, min_tokens: int = 0, ignore_eos: bool = False, choice: int = 0
) -> Answer:
    """The answer to *prompt*: a word of four bytes per token, at most *max_tokens*. O(prompt bytes + answer tokens).

    *choice* tells apart the ``n`` answers to one prompt; only the first, 0, can be continued.
    """
    state = blake2b(prompt.packed, digest_size=8, salt=choice.to_bytes(4, "big"))
    position = _position_after(prompt.packed[-TOKEN_BYTES:])
    pieces: list[bytes] = []
    while len(pieces) < max_tokens:
        draw = int.from_bytes(state.digest(), "big")
        may_end = not ignore_eos and len(pieces) >= min_tokens
        if may_end and position >= _MIN_WORDS and (position >= _POSITIONS or (draw >> 32) % _ENDING_ONE_IN == 0):
            pieces.append(END_OF_ANSWER)
            return Answer(TokenSequence(b"".join(pieces)), "stop")
        if position >= _POSITIONS:
            position = _MIN_WORDS
        piece = _WORDS[position * _WORDS_PER_POSITION + draw % _WORDS_PER_POSITION]
        pieces.append(piece)
        state.update(piece)
        position += 1
    return Answer(TokenSequence(b"".join(pieces)), "length")


def _position_after(piece: bytes) -> int:
    return _POSITION.get(piece, -1) + 1
