"""Text cut at special tokens, beside the tokenizer on the whole."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from cache_index.tokens import pack
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.segments import Segments
from tests.gateway.models.tokenizing.examples import (
    CHATML_MARKS,
    HELLO,
    IM_END,
    IM_START,
    byte_characters,
    ids,
    segments,
    tiny_tokenizer,
)

MARKS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im", "[INST]", "word")
LETTERS = [
    "a",
    "b",
    "hello",
    "he",
    " ",
    "  ",
    "\n",
    "\t",
    "▁",
    "é",
    "e\u0301",
    "ﬁ",
    "你",
    "😀",
    "1",
    "'s",
    ".",
    "<",
    "|",
    ">",
    "[",
]


def whole(tokenizer: Tokenizer, text: str) -> bytes:
    return pack(tokenizer.encode(text, add_special_tokens=False).ids)


def cut(made: Segments, text: str) -> bytes:
    return made.encode(made.split(text))


def letters(model_marks: list[AddedToken]) -> Tokenizer:
    """A vocabulary of the characters of `LETTERS`, without a pre-tokenizer."""
    characters = sorted({character for text in [*LETTERS, *MARKS, "▁he"] for character in text})
    vocabulary = {"<unk>": 0, **{character: number for number, character in enumerate(characters, 1)}}
    merges = [
        ("h", "e"),
        ("▁", "he"),
        ("l", "l"),
        ("▁", "a"),
        ("a", "▁"),
        ("b", "b"),
        ("▁", "▁"),
        (" ", " "),
        ("|", ">"),
    ]
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True))
    tokenizer.add_special_tokens(model_marks)
    return tokenizer


def special(*flagged: AddedToken) -> list[AddedToken]:
    names = {token.content for token in flagged}
    return [*flagged, *(AddedToken(mark, special=True, normalized=False) for mark in MARKS if mark not in names)]


def byte_level() -> Tokenizer:
    return tiny_tokenizer(MARKS)


def byte_level_with_prefix() -> Tokenizer:
    tokenizer = tiny_tokenizer(MARKS)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def qwen() -> Tokenizer:
    tokenizer = tiny_tokenizer(MARKS)
    pattern = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return tokenizer


def metaspace(scheme: str) -> Callable[[], Tokenizer]:
    def made() -> Tokenizer:
        tokenizer = letters(special())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "first")
        return tokenizer

    return made


def prepending() -> Tokenizer:
    tokenizer = letters(special())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def stripping() -> Tokenizer:
    left = AddedToken("<s>", lstrip=True, special=True, normalized=False)
    right = AddedToken("</s>", rstrip=True, special=True, normalized=False)
    both = AddedToken("[INST]", lstrip=True, rstrip=True, special=True, normalized=False)
    return letters(special(left, right, both))


def normalizing() -> Tokenizer:
    """One mark is only found after normalization, and could come out of it."""
    tokenizer = letters(special(AddedToken("<s>", special=True, normalized=True)))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()])
    return tokenizer


def single_words() -> Tokenizer:
    return letters(special(AddedToken("word", single_word=True, special=True, normalized=False)))


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte level": byte_level,
    "byte level with a space in front": byte_level_with_prefix,
    "qwen": qwen,
    "metaspace first": metaspace("first"),
    "metaspace always": metaspace("always"),
    "metaspace never": metaspace("never"),
    "a normalizer that prepends": prepending,
    "marks that strip": stripping,
    "marks after normalization": normalizing,
    "marks that are single words": single_words,
}
MADE = {name: (make(), segments(make())) for name, make in TOKENIZERS.items()}


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=60, deadline=None)
@given(parts=st.lists(st.sampled_from([*LETTERS, *MARKS]) | st.text(max_size=4), max_size=12))
def test_cut_or_whole_gives_the_same_tokens(name: str, parts: list[str]) -> None:
    """Whatever the tokenizer does at the begin of a text, at its marks, or before it looks for them."""
    tokenizer, made = MADE[name]
    text = "".join(parts)

    assert whole(tokenizer, text) == cut(made, text)
    assert whole(tokenizer, text) == cut(made, text)  # from what is remembered


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if name != "marks that are single words"])
def test_every_usual_tokenizer_can_be_cut(name: str) -> None:
    """The property above would hold of one that never is, too."""
    assert MADE[name][1].cuts
    assert 3 == len(MADE[name][1].split("<|im_start|>a<|im_end|>b<|im_start|>").texts)


def test_marks_that_look_at_their_surroundings_forbid_cutting() -> None:
    """Whether such a one is there depends on both sides of it."""
    made = MADE["marks that are single words"][1]

    assert not made.cuts
    assert ["<|im_start|>a"] == [*made.split("<|im_start|>a").texts]


def test_text_becomes_these_ids() -> None:
    """Marks have their own, a word that is in the vocabulary has one, the rest are bytes."""
    text = "<|im_start|>user\nhello é<|im_end|>\n"

    assert ids(IM_START, "user\n", HELLO, " é", IM_END, "\n") == cut(segments(), text)


def test_a_segment_begins_with_its_mark() -> None:
    """What stands before the first one is a segment too; no text has none."""
    made = segments()

    assert ["a", "<|im_start|>b", "<|im_end|>", "<|im_start|>"] == [
        *made.split("a<|im_start|>b<|im_end|><|im_start|>").texts
    ]
    assert [] == made.split("").texts
    assert b"" == cut(made, "")


def test_the_longest_mark_counts() -> None:
    """The tokenizer does the same."""
    made = segments(tiny_tokenizer(["<|im", "<|im_start|>", "<|"]))

    assert ["<|im_start|>", "<|im", "<|"] == [*made.split("<|im_start|><|im<|").texts]


def test_only_what_is_new_is_missing() -> None:
    """For a longer conversation these are the turns that were added."""
    made = segments()
    turn = "<|im_start|>user\nhello<|im_end|>"
    made.encode(made.split(turn))
    pieces = made.split(turn + "<|im_start|>new")

    assert len("<|im_start|>new") == pieces.missing_characters
    assert ids(IM_START, "user\n", HELLO, IM_END, IM_START, "new") == made.encode(pieces)
    assert 0 == made.split(turn + "<|im_start|>new").missing_characters


def test_the_same_new_segment_twice_is_made_once() -> None:
    """It is in both places."""
    made = segments()

    assert ids(IM_START, "a", IM_END, IM_START, "a", IM_END) == cut(
        made, "<|im_start|>a<|im_end|><|im_start|>a<|im_end|>"
    )


def test_what_was_forgotten_is_made_again() -> None:
    """A cache without room costs time, nothing else."""
    made = segments(max_bytes=0)

    assert cut(made, "<|im_start|>a<|im_end|>") == cut(made, "<|im_start|>a<|im_end|>")


def test_what_is_sure_ends_at_a_mark() -> None:
    """Before the last one that is known, for tokens before it depend on nothing behind."""
    made = segments()
    text = "<|im_start|>user\nsee <|im_end|>"

    assert text[:21] == made.sure(text, len(text))
    assert "" == made.sure(text, 20)
    assert "" == made.sure("no marks", 5)
    assert "" == segments(tiny_tokenizer([])).sure(text, 20)


@pytest.mark.parametrize(
    ("make", "around"),
    [
        (tiny_tokenizer, (b"", b"")),
        (lambda: tiny_tokenizer(bos="<|endoftext|>"), (ids(260), b"")),
    ],
)
def test_special_tokens_around_a_text_are_found(make: Callable[[], Tokenizer], around: tuple[bytes, bytes]) -> None:
    """From what the tokenizer does to samples."""
    assert around == segments(make()).special_tokens


def test_more_than_a_begin_and_an_end_is_nothing_known() -> None:
    """Such as a text that comes twice."""
    tokenizer = tiny_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|im_start|> $A", special_tokens=[("<|im_start|>", IM_START)]
    )

    assert segments(tokenizer).special_tokens is None


def test_truncation_and_padding_are_off() -> None:
    """Engines ask for neither."""
    tokenizer = tiny_tokenizer()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=10)

    assert ids("abcd") == cut(segments(tokenizer), "abcd")


def test_what_a_tokenizer_cannot_take_is_refused() -> None:
    """Without its words, which could be the prompt's."""
    vocabulary = {character: byte for byte, character in enumerate(byte_characters()) if character != "z"}
    tokenizer = Tokenizer(models.WordLevel(vocab={**vocabulary, "a": 1}, unk_token="<nothing>"))
    tokenizer.add_special_tokens([*CHATML_MARKS])

    with pytest.raises(Unknowable, match="unsupported") as refused:
        segments(tokenizer)
    assert refused.value.__suppress_context__
