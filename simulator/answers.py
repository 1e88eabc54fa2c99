"""Answers of the simulated model: made-up words that depend on every token of the prompt and on nothing else.

1. The next token is a function of all preceding tokens of the prompt and the answer. A prompt that ends with the first
   k tokens of an answer is therefore continued with the rest of the same answer, as with a real model that samples
   greedily.
2. Every word belongs to one position of an answer (0 to 255). The last two tokens of an answer therefore show its
   length so far, and whether it may end.
3. Every word has four bytes of UTF-8, so the text of an answer is tokenized into exactly the generated tokens.
4. Nearly every word is one token. From position 24 on, every eighth word has a character beyond ASCII. Such a word is
   two tokens that contain incomplete characters, so that readers of the stream must hold back half a character.
5. An answer ends by itself after 16 to 256 words, with a token that has no text.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from simulator.tokens import END_OF_ANSWER, TOKEN_BYTES, TokenSequence

FinishReason = Literal["stop", "length"]

_POSITIONS = 256
_WORDS_PER_POSITION = 3
_MIN_WORDS = 16
_ENDING_ONE_IN = 48  # an answer has about 60 words in the mean, as a short chat turn does
_SHUFFLE = 787  # coprime to the number of possible words, so that adjacent words of the table do not look alike
_CONSONANTS, _VOWELS = "bdfghlmnprstv", "aeiou"  # letters of the vocabulary, so that a word is a token
_WIDE_FROM, _WIDE_EVERY = 24, 8


def _word(index: int) -> str:
    vowels, consonants = len(_VOWELS), len(_CONSONANTS)
    index = index * _SHUFFLE % (consonants * vowels * consonants)
    first, last = index // (vowels * consonants), index % consonants
    return f"{_CONSONANTS[first]}{_VOWELS[index // consonants % vowels]}{_CONSONANTS[last]} "


def _wide_words(position: int) -> tuple[str, ...]:
    """Return three words whose characters take four, three and two bytes. Only every eighth position has them."""
    return chr(0x1F400 + position), f"{chr(0x4E00 + position)} ", f"s{chr(0x100 + position // _WIDE_EVERY)} "


def _words_at(position: int) -> tuple[bytes, ...]:
    """Return the possible words at a position of the answer, each as packed tokens."""
    if position >= _WIDE_FROM and position % _WIDE_EVERY == 0:
        words = _wide_words(position)
    else:
        first = position * _WORDS_PER_POSITION
        words = tuple(map(_word, range(first, first + _WORDS_PER_POSITION)))
    return tuple(TokenSequence.from_text(word).packed for word in words)


_WORDS = dict(enumerate(map(_words_at, range(_POSITIONS))))
_AFTER = {word: position + 1 for position, words in _WORDS.items() for word in words}
"""Position in the answer that follows each complete word."""


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: TokenSequence
    finish_reason: FinishReason


def answer(
    prompt: TokenSequence, *, max_tokens: int, min_tokens: int = 0, ignore_eos: bool = False, choice: int = 0
) -> Answer:
    """Return the answer to *prompt*, with at most *max_tokens* tokens. The cost is linear in the prompt and answer
    tokens.

    *choice* distinguishes the ``n`` answers to one prompt. Only the first answer, 0, can be continued.
    """
    state = blake2b(prompt.packed, digest_size=8, salt=choice.to_bytes(4, "big"))
    position, begun = _place_after(prompt.packed)
    said: list[bytes] = []
    while len(said) < max_tokens:
        draw = int.from_bytes(state.digest(), "big")
        may_end = not ignore_eos and len(said) >= min_tokens and not begun
        if may_end and position >= _MIN_WORDS and (position >= _POSITIONS or (draw >> 32) % _ENDING_ONE_IN == 0):
            said.append(END_OF_ANSWER)
            return Answer(TokenSequence(b"".join(said)), "stop")
        if position >= _POSITIONS:
            position = _MIN_WORDS
        possible = [word for word in _WORDS[position] if word.startswith(begun)]
        word = possible[draw % len(possible)]
        token = word[len(begun) : len(begun) + TOKEN_BYTES]
        said.append(token)
        state.update(token)
        begun += token
        if begun == word:
            position, begun = position + 1, b""
    return Answer(TokenSequence(b"".join(said)), "length")


def _place_after(tokens: bytes) -> tuple[int, bytes]:
    """Return the position of the next word after *tokens*, and the part of that word that *tokens* already contain."""
    last = tokens[-TOKEN_BYTES:]
    after = _AFTER.get(tokens[-2 * TOKEN_BYTES :]) or _AFTER.get(last)
    if after is not None:
        return after, b""
    position = _AFTER.get(tokens[-2 * TOKEN_BYTES : -TOKEN_BYTES], 0)
    is_begun = any(word != last and word.startswith(last) for word in _WORDS.get(position, ()))
    return (position, last) if is_begun else (0, b"")
