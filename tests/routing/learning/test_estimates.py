import pytest

from routing.learning.estimates import BytesPerToken, OutputLength


def test_four_bytes_make_a_token_to_begin_with() -> None:
    """English text under a common tokenizer."""
    assert 4.0 == BytesPerToken().ratio


def test_the_ratio_follows_what_the_engine_counts() -> None:
    """Ten prompts of 10,000 tokens with 2 bytes each leave little of the initial 4."""
    learned = BytesPerToken()
    for _ in range(10):
        learned.learn(20_000, 10_000)

    assert pytest.approx(2.0, abs=0.02) == learned.ratio


def test_a_short_prompt_hardly_counts() -> None:
    """Ten tokens against the 1,000 that the initial ratio is worth."""
    learned = BytesPerToken()
    learned.learn(10, 10)

    assert pytest.approx(3.97, abs=0.01) == learned.ratio


def test_recent_prompts_count_most() -> None:
    """Traffic that turns from 4 to 2 bytes per token is followed within 300,000 tokens."""
    learned = BytesPerToken()
    for _ in range(100):
        learned.learn(40_000, 10_000)
    for _ in range(30):
        learned.learn(20_000, 10_000)

    assert pytest.approx(2.0, abs=0.1) == learned.ratio


def test_one_huge_prompt_counts_at_most_twice_what_was_known() -> None:
    """A prompt longer than the memory halves the past, no more."""
    learned = BytesPerToken()
    learned.learn(0, 0)
    learned.learn(2_000_000, 1_000_000)

    assert 2.0 < learned.ratio < 2.01


@pytest.mark.parametrize(
    ("prompt_bytes", "prompt_tokens", "ratio"), [(1_000_000, 1, 16.0), (1, 1_000_000, 0.5), (0, 0, 4.0)]
)
def test_the_ratio_stays_within_what_is_possible(prompt_bytes: int, prompt_tokens: int, ratio: float) -> None:
    """Half a byte to 16 bytes per token, even if an engine counts nonsense; images make tokens without text."""
    learned = BytesPerToken()
    learned.learn(prompt_bytes, prompt_tokens)

    assert ratio == learned.ratio


def test_256_tokens_are_expected_to_begin_with() -> None:
    """A caller that allows fewer gets no more than allowed."""
    lengths = OutputLength()

    assert 256.0 == lengths.expected(None)
    assert 256.0 == lengths.expected(1000)
    assert 16.0 == lengths.expected(16)


def test_the_expected_length_follows_the_answers() -> None:
    """A hundred answers of 40 tokens leave nothing of the beginning."""
    lengths = OutputLength()
    lengths.learn(40)

    assert pytest.approx(245.2) == lengths.expected(None)

    for _ in range(99):
        lengths.learn(40)

    assert pytest.approx(40.0, abs=2.0) == lengths.expected(None)
