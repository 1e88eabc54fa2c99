from gateway.simulator.answers import answer
from gateway.simulator.tokens import TokenSequence


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
    """After 16 to 256 words, and the token that ends it."""
    made = [answer(prompt(number), max_tokens=1000) for number in range(500)]
    lengths = [len(one.tokens) for one in made]

    assert {"stop"} == {one.finish_reason for one in made}
    assert 17 <= min(lengths)
    assert max(lengths) <= 257


def test_an_answer_can_be_cut_anywhere_and_continued() -> None:
    """The prompt with the first k tokens is answered by exactly the rest, for every k."""
    whole = answer(prompt(3), max_tokens=1000)
    for cut in range(len(whole.tokens)):
        head = TokenSequence(whole.tokens.packed[: 4 * cut])
        rest = answer(prompt(3) + head, max_tokens=1000)
        assert whole.tokens == head + rest.tokens
        assert "stop" == rest.finish_reason


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
