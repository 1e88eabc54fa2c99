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
_WORDS_PER_POSITION = 3
_MIN_WORDS = 16
_ENDING_ONE_IN = 48  # an answer has about 60 words in the mean, as a short chat turn does
_SHUFFLE = 787  # coprime to the number of possible words, so that neighbours in the table do not look alike
_CONSONANTS, _VOWELS = "bdfghlmnprstv", "aeiou"  # letters of the vocabulary, so that a word is a token


def _word(index: int) -> str:
    vowels, consonants = len(_VOWELS), len(_CONSONANTS)
    index = index * _SHUFFLE % (consonants * vowels * consonants)
    first, last = index // (vowels * consonants), index % consonants
    return f"{_CONSONANTS[first]}{_VOWELS[index // consonants % vowels]}{_CONSONANTS[last]} "


_WORDS = [TokenSequence.from_text(_word(index)).packed for index in range(_POSITIONS * _WORDS_PER_POSITION)]
_POSITION = {word: index // _WORDS_PER_POSITION for index, word in enumerate(_WORDS)}


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: TokenSequence
    finish_reason: FinishReason


def answer(
    prompt: TokenSequence, *, max_tokens: int, min_tokens: int = 0, ignore_eos: bool = False, choice: int = 0
) -> Answer:
    """The answer to *prompt*: a word per token, at most *max_tokens*. O(prompt + answer tokens).

    *choice* tells apart the ``n`` answers to one prompt; only the first, 0, can be continued.
    """
    state = blake2b(prompt.packed, digest_size=8, salt=choice.to_bytes(4, "big"))
    position = _position_after(prompt.packed[-TOKEN_BYTES:])
    said: list[bytes] = []
    while len(said) < max_tokens:
        draw = int.from_bytes(state.digest(), "big")
        may_end = not ignore_eos and len(said) >= min_tokens
        if may_end and position >= _MIN_WORDS and (position >= _POSITIONS or (draw >> 32) % _ENDING_ONE_IN == 0):
            said.append(END_OF_ANSWER)
            return Answer(TokenSequence(b"".join(said)), "stop")
        if position >= _POSITIONS:
            position = _MIN_WORDS
        word = _WORDS[position * _WORDS_PER_POSITION + draw % _WORDS_PER_POSITION]
        said.append(word)
        state.update(word)
        position += 1
    return Answer(TokenSequence(b"".join(said)), "length")


def _position_after(token: bytes) -> int:
    return _POSITION.get(token, -1) + 1
