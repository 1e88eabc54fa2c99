"""The simulator's tokenizer as a folder that others read: `tokenizer.json` and `tokenizer_config.json`.

The formats are those of Hugging Face's `tokenizers` and `transformers`. What reads them gives the very ids that a
simulated worker uses:

1. The marks are special tokens, so text is cut at them before anything else.
2. The line at the start of a part is split off, then bytes become characters, one each, then come pieces of four.
3. WordPiece without a prefix takes the longest token first: four letters, else two bytes, else one.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.rendering import CHAT_TEMPLATE
from simulator.vocabulary import MARKS, PIECE_BYTES, all_tokens, mark_id

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def write_tokenizer(folder: Path) -> None:
    """Write both files into *folder*, which is made where it is missing; 3 MB.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("tokenizer.json", _tokenizer()), ("tokenizer_config.json", _config())):
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (folder / name).write_text(text, encoding="utf-8")


def _tokenizer() -> dict[str, Any]:
    characters = byte_characters()
    tokens = ("".join(map(characters.__getitem__, token)) for token in all_tokens())
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": mark_id(mark), **_mark(mark)} for mark in MARKS],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [_split(r"\A[^\n]*\n"), _BYTE_LEVEL, _split(rf"[\s\S]{{1,{PIECE_BYTES}}}")],
        },
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "WordPiece",
            "unk_token": MARKS[-1],  # has to be one; every byte is a token, so that it is never taken
            "continuing_subword_prefix": "",
            "max_input_chars_per_word": PIECE_BYTES,
            "vocab": {token: number for number, token in enumerate(tokens)},
        },
    }


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {str(mark_id(mark)): _mark(mark) for mark in MARKS},
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _mark(mark: str) -> dict[str, Any]:
    return {
        "content": mark,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def byte_characters() -> Mapping[int, str]:
    """The character that stands for a byte in a byte-level vocabulary, as GPT-2 began it.

    A visible character of Latin-1 stands for its own byte, the others are moved in order to U+0100 and on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(0x100 + place) for place, byte in enumerate(hidden)}
