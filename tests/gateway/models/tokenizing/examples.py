"""Tokenizers whose ids can be read: a byte is its own id, and a few words have one of their own."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from cache_index.tokens import TokenIds, pack
from gateway.models.tokenizing.chat_template import ChatTemplate
from gateway.models.tokenizing.engine_flags import EngineFlags
from gateway.models.tokenizing.segment_cache import SegmentCache
from gateway.models.tokenizing.segments import Segments

HELLO = 259
"""``hello`` as one token; ``he`` is 256, ``ll`` 257, ``hell`` 258."""
FIRST_ADDED = 260

CHATML_MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ENDOFTEXT, IM_START, IM_END = 260, 261, 262

NEW_YEAR = datetime(2026, 1, 1, 12, tzinfo=UTC)


def byte_characters() -> list[str]:
    """For each byte the character that a byte-level vocabulary writes it as: itself if it is visible."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in visible else chr(next(hidden)) for byte in range(256)]


def tiny_tokenizer(marks: Sequence[str | AddedToken] = CHATML_MARKS, *, bos: str | None = None) -> Tokenizer:
    """Byte-level BPE with four merges; *marks* are special tokens from `FIRST_ADDED` on."""
    vocabulary = {character: byte for byte, character in enumerate(byte_characters())}
    vocabulary |= {"he": 256, "ll": 257, "hell": 258, "hello": HELLO}
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(marks))
    if bos is not None:
        token = (bos, tokenizer.token_to_id(bos))
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[token])
    return tokenizer


def segments(tokenizer: Tokenizer | None = None, *, max_bytes: int = 2**20) -> Segments:
    return Segments(tiny_tokenizer() if tokenizer is None else tokenizer, SegmentCache(max_bytes=max_bytes))


def template(
    source: str, *, flags: EngineFlags | None = None, special_tokens: Mapping[str, str] | None = None
) -> ChatTemplate:
    return ChatTemplate(
        {"default": source},
        special_tokens=special_tokens or {},
        flags=flags or EngineFlags(),
        now=lambda: NEW_YEAR,
    )


def ids(*parts: int | str) -> TokenIds:
    """The packed ids of *parts*: an id is itself, a text its bytes."""
    return b"".join(pack([part]) if isinstance(part, int) else pack([*part.encode()]) for part in parts)
