import pytest

from simulator.answers import answer
from simulator.tokens import TokenSequence


def prompt(number: int) -> TokenSequence:
    return TokenSequence.from_text(f"<|im_start|>user\nQuestion {number}<|im_end|>\n<|im_start|>assistant\n")


def test_an_answer_is_words() -> None:
    """Each token is a word of three letters and a space; the end has no text."""
    made = answer(prompt(1), max_tokens=3)

    assert "length" == made.finish_reason
    assert 12 == len(made.tokens.text())
    assert all(len(word) == 3 and word.isalpha() for word in made.tokens.text().split())


def test_the_whole_prompt_decides() -> None:
    """A thousand prompts have a thousand answers, and each has the same one every time."""
    texts = [answer(prompt(number), max_tokens=16).tokens.text() for number in range(1000)]

    assert 1000 == len(set(texts))
    assert texts[7] == answer(prompt(7), max_tokens=16).tokens.text()


def test_an_answer_ends_by_itself() -> None:
    """After 16 to 256 words of four bytes, of which 29 at most are two tokens, and the token that ends it."""
    made = [answer(prompt(number), max_tokens=1000) for number in range(500)]
    words = [len(one.tokens.text(skip_marks=True).encode()) // 4 for one in made]

    assert {"stop"} == {one.finish_reason for one in made}
    assert 16 <= min(words)
    assert 256 >= max(words)
    assert 29 >= max(len(one.tokens) - 1 - count for one, count in zip(made, words, strict=True))


def test_an_answer_has_characters_of_every_length() -> None:
    """The first word beyond ASCII is the one at position 24; it is two tokens, and neither is text alone."""
    texts = [answer(prompt(number), max_tokens=33, ignore_eos=True).tokens.text() for number in range(20)]
    wide = answer(prompt(0), max_tokens=26, ignore_eos=True).tokens.each()[24:]

    assert {2, 3, 4} == {max(len(character.encode()) for character in text) for text in texts}
    assert all(text[:96].isascii() for text in texts)
    assert {128} == {len(text.encode()) for text in texts}
    assert all("\ufffd" in TokenSequence(token).text() for token in wide)
    assert "\ufffd" not in TokenSequence(b"".join(wide)).text()


def test_an_answer_put_back_as_text_keeps_its_tokens() -> None:
    asked = prompt(5)
    whole = answer(asked, max_tokens=200, ignore_eos=True)
    text = whole.tokens.text()
    for cut in range(0, len(text.encode()), 4):
        so_far = TokenSequence.from_text(asked.text() + text.encode()[:cut].decode())
        rest = answer(so_far, max_tokens=asked_for(asked + whole.tokens, so_far), ignore_eos=True)
        assert asked + whole.tokens == so_far + rest.tokens


def asked_for(whole: TokenSequence, so_far: TokenSequence) -> int:
    return len(whole) - len(so_far)


@pytest.mark.parametrize("asked", [prompt(3), TokenSequence.from_text("Once upon a"), TokenSequence.from_ids([7])])
def test_an_answer_can_be_cut_anywhere_and_continued(asked: TokenSequence) -> None:
    """The prompt with the first k tokens is answered by exactly the rest, for every k, in the midst of words too."""
    whole = answer(asked, max_tokens=1000, min_tokens=100)
    for cut in range(len(whole.tokens)):
        head = TokenSequence(whole.tokens.packed[: 4 * cut])
        rest = answer(asked + head, max_tokens=1000, min_tokens=max(0, 100 - cut))
        assert whole.tokens == head + rest.tokens
        assert "stop" == rest.finish_reason


def test_half_a_character_of_another_text_is_no_begun_word() -> None:
    """Only behind the word that comes before it in an answer."""
    half = TokenSequence.from_ids([256 + 256 * 0xF0 + 0x9F])

    assert answer(half, max_tokens=1).tokens.text().isascii()


def test_a_long_answer_can_be_continued() -> None:
    """Also where its end is ignored, past the last position."""
    whole = answer(prompt(3), max_tokens=700, ignore_eos=True)
    head = TokenSequence(whole.tokens.packed[: 4 * 500])

    assert 700 == len(whole.tokens)
    assert whole.tokens == head + answer(prompt(3) + head, max_tokens=200, ignore_eos=True).tokens


def test_min_tokens_put_off_the_end() -> None:
    """An answer is at least as long as asked."""
    assert all(len(answer(prompt(number), max_tokens=900, min_tokens=300).tokens) > 300 for number in range(20))


def test_choices_differ() -> None:
    """n answers to one prompt are n texts."""
    assert 4 == len({answer(prompt(1), max_tokens=16, choice=choice).tokens for choice in range(4)})
