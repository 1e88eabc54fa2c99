"""Export of the simulator's tokenizer as files that other programs read: `tokenizer.json` and `tokenizer_config.json`.

The formats are those of Hugging Face's `tokenizers` and `transformers`. Programs that load these files get the same
token ids as a simulated worker:

1. Template marks are special tokens, so text is split at the marks first.
2. The first line of each part is split off. Bytes are then mapped to one character each, and cut into pieces of four.
3. WordPiece without a prefix selects the longest token first: four letters, then two bytes, then one byte.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.rendering import CHAT_TEMPLATE
from simulator.vocabulary import MARKS, PIECE_BYTES, all_tokens, mark_id

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def write_tokenizer(folder: Path) -> None:
    """Write both tokenizer files (3 MB) into *folder*, which is created if it does not exist.

    Raises:
        OSError: if the folder cannot be written.
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
    """Return the character that stands for each byte in a byte-level vocabulary, as introduced by GPT-2.

    Visible Latin-1 characters represent their own bytes. The other bytes are mapped in order to U+0100 and above.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(0x100 + place) for place, byte in enumerate(hidden)}
