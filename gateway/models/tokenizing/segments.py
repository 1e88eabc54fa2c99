"""Tokenization of text in segments, so that only the new part of a longer conversation takes time.

1. A tokenizer extracts its added tokens from a text first. The text between two added tokens is normalized and split
   separately (`tokenizers/src/tokenizer/added_vocabulary.rs`, extract_and_normalize). So no other token spans an added
   token, and a text that is split before an added token has the same tokens as its parts.
2. Some added tokens are unsuitable. A token that strips white space on its left changes the text before it. A token
   that is searched after normalization may be at another place. A token that must be a single word depends on its
   neighbor characters: a vocabulary with such a token is not used for splitting.
3. A segment begins with the token that it was split at. A tokenizer that treats the beginning of a text differently
   (Metaspace, "first") therefore does not mistake a segment for the beginning.
4. Split samples are compared with whole ones once. If their tokens differ, texts are not split.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer

from cache_index.tokens import TokenIds, pack
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.segment_cache import Key, SegmentCache

_MARKS_TRIED = 40  # some vocabularies have a thousand, nearly all reserved for later
_SAMPLES = (
    "Hello, world! It's 12345 o'clock.",
    " leading and trailing ",
    "\n\nlines\n \n\ttabs\t\n",
    "Gr\u00fc\u00dfe, \u4f60\u597d, \U0001f600 e\u0301 \ufb01",
    "",
    "a",
    '{"name": "f", "arguments": {"x": [1, 2.50]}}\n',
)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Text that is split into segments, with the token ids of cached segments."""

    texts: Sequence[str]
    keys: Sequence[Key]
    ids: Sequence[TokenIds | None]

    @property
    def missing_characters(self) -> int:
        return sum(len(text) for text, ids in zip(self.texts, self.ids, strict=True) if ids is None)


class Segments:
    """Tokenizer that splits texts into segments. It takes ownership of *tokenizer*.

    *cache* must not be shared with another tokenizer, whose token ids differ.
    """

    def __init__(self, tokenizer: Tokenizer, cache: SegmentCache) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._cache = cache
        self._mark, self._cuts = _marks(list(tokenizer.get_added_tokens_decoder().values()))
        if not self._agrees():
            self._cuts = frozenset()
        self.special_tokens = self._special_tokens_around()
        """Tokens that the tokenizer can add before and after a text, or None if it makes further changes."""

    @property
    def cuts(self) -> bool:
        """Whether the vocabulary has special tokens at which text can be split."""
        return bool(self._cuts)

    def split(self, text: str) -> Pieces:
        """Return *text* split into segments, with cached token ids. O(characters), about 1 ns per character."""
        texts = self._texts(text)
        keys = self._cache.keys(texts)
        return Pieces(texts, keys, self._cache.get(keys))

    def encode(self, pieces: Pieces) -> TokenIds:
        """Return the token ids of *pieces*, and cache the ids that were not cached before.

        It takes about 1.2 us per missing token, almost all without the interpreter's lock.
        """
        new = {key: text for key, text, ids in zip(pieces.keys, pieces.texts, pieces.ids, strict=True) if ids is None}
        if not new:
            return b"".join([ids for ids in pieces.ids if ids is not None])
        made = dict(zip(new, self._encoded(list(new.values())), strict=True))
        self._cache.put(made.items())
        return b"".join([made[key] if ids is None else ids for key, ids in zip(pieces.keys, pieces.ids, strict=True)])

    def sure(self, text: str, characters: int) -> str:
        """Return the longest prefix of *text* whose tokens depend only on the first *characters* characters."""
        cuts = self._cuts
        found = self._mark.finditer(text) if cuts else ()
        starts = [match.start() for match in found if match[0] in cuts and match.end() <= characters]
        return text[: starts[-1]] if starts else ""

    def _texts(self, text: str) -> list[str]:
        if not self._cuts:
            return [text] if text else []
        before, *found = self._mark.split(text)
        texts = [before] if before else []
        for mark, behind in zip(found[::2], found[1::2], strict=True):
            if mark in self._cuts or not texts:
                texts.append(mark + behind)
            else:
                texts[-1] += mark + behind
        return texts

    def _encoded(self, texts: list[str]) -> list[TokenIds]:
        # Of the ways to encode, the one that knows no offsets: it takes half the time, and lets other threads run.
        # It raises nothing narrower, a panic is not even an Exception, and the text of either may contain the prompt.
        try:
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001
            raise Unknowable("unsupported") from None
        return [pack(encoding.ids) for encoding in encodings]

    def _agrees(self) -> bool:
        """Return whether sample texts get the same token ids in segments as in one piece."""
        marks = sorted(self._cuts)[:_MARKS_TRIED]
        samples = ["".join([mark + sample for sample in _SAMPLES] + [mark, mark]) for mark in marks]
        samples += [_SAMPLES[0] + "".join(samples[:3]), " ".join(marks), "".join(marks)]
        return all(
            b"".join(self._encoded(self._texts(sample))) == whole
            for sample, whole in zip(samples, self._encoded(samples), strict=True)
        )

    def _special_tokens_around(self) -> tuple[TokenIds, TokenIds] | None:
        around: set[tuple[TokenIds, TokenIds]] = set()
        for sample in _SAMPLES[:3]:
            bare, dressed = (
                self._tokenizer.encode_batch_fast([sample], add_special_tokens=special)[0].ids
                for special in (False, True)
            )
            more = len(dressed) - len(bare)
            at = next((at for at in range(more + 1) if dressed[at : at + len(bare)] == bare), None)
            if at is None:
                return None
            around.add((pack(dressed[:at]), pack(dressed[at + len(bare) :])))
        return around.pop() if len(around) == 1 else None


def _marks(tokens: list[AddedToken]) -> tuple[re.Pattern[str], frozenset[str]]:
    """Return a pattern that finds added tokens in the same way as the tokenizer (leftmost and longest first), and the
    tokens at which to split.
    """
    raw = sorted((token for token in tokens if not token.normalized), key=lambda token: -len(token.content))
    found = re.compile(f"({'|'.join(re.escape(token.content) for token in raw)})")
    if any(token.single_word for token in tokens):
        return found, frozenset()
    return found, frozenset(token.content for token in raw if not token.lstrip)
