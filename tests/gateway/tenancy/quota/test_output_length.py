"""Expected lengths of answers."""

import random

from gateway.tenancy.quota import output_length
from gateway.tenancy.quota.output_length import OutputLengths


def test_until_something_is_known_the_default_is_expected() -> None:
    lengths = OutputLengths(default=512.0)
    for _ in range(7):
        lengths.learn(lengths.lengths_for("blue", "tiny"), 40)

    assert 512.0 == lengths.expected(lengths.lengths_for("blue", "tiny"))


def test_nine_of_ten_answers_are_no_longer() -> None:
    lengths = OutputLengths(default=512.0)
    for tokens in range(1, 65):
        lengths.learn(lengths.lengths_for("blue", "tiny"), tokens)

    assert 58 == lengths.expected(lengths.lengths_for("blue", "tiny"))


def test_old_pairs_are_forgotten() -> None:
    lengths = OutputLengths(default=512.0)
    for _ in range(100):
        lengths.learn(lengths.lengths_for("blue", "tiny"), 4000)
    for _ in range(64):
        lengths.learn(lengths.lengths_for("blue", "tiny"), 10)

    assert 10 == lengths.expected(lengths.lengths_for("blue", "tiny"))


def test_a_length_is_estimated_again_after_32_answers() -> None:
    """Until 64 answers are known, after 8."""
    lengths = OutputLengths(default=512.0)
    expected = []
    for number in range(1, 129):
        lengths.learn(lengths.lengths_for("blue", "tiny"), number)
        expected.append(lengths.expected(lengths.lengths_for("blue", "tiny")))

    assert [number for number in range(1, 128) if expected[number] != expected[number - 1]] == [
        *range(7, 64, 8),
        *range(95, 128, 32),
    ]


def test_no_more_is_expected_than_the_caller_and_the_model_allow() -> None:
    lengths = OutputLengths(default=512.0)

    assert 100 == lengths.expected(lengths.lengths_for("blue", "tiny"), asked=100)
    assert 512.0 == lengths.expected(lengths.lengths_for("blue", "tiny"), asked=10_000)
    assert 256 == lengths.expected(lengths.lengths_for("blue", "tiny"), asked=10_000, cap=256)
    assert 0 == lengths.expected(lengths.lengths_for("blue", "tiny"), asked=0)


def test_each_of_several_answers_counts() -> None:
    lengths = OutputLengths(default=512.0)
    for _ in range(8):
        lengths.learn(lengths.lengths_for("blue", "tiny"), 300, choices=3)

    assert 100.0 == lengths.expected(lengths.lengths_for("blue", "tiny"))
    assert 400.0 == lengths.expected(lengths.lengths_for("blue", "tiny"), choices=4)
    assert 200.0 == lengths.expected(lengths.lengths_for("blue", "tiny"), asked=50, choices=4)


def test_answers_to_short_requests_say_nothing_of_long_ones() -> None:
    """Otherwise 70 answers of one token would make a hundred of 50,000 look short."""
    lengths = OutputLengths(default=512.0)
    pair = lengths.lengths_for("blue", "tiny")
    for _ in range(70):
        lengths.learn(pair, 1, asked=1)
    for _ in range(8):
        lengths.learn(pair, 900, asked=1000)

    assert 1 == lengths.expected(pair, asked=1)
    assert 512.0 == lengths.expected(pair, asked=50_000)
    assert 512.0 == lengths.expected(pair)
    assert 900 == lengths.expected(pair, asked=1023)
    assert 800 == lengths.expected(pair, asked=1023, cap=800)


def test_teams_and_models_have_lengths_of_their_own() -> None:
    lengths = OutputLengths(default=512.0)
    for _ in range(8):
        lengths.learn(lengths.lengths_for("blue", "tiny"), 10)
        lengths.learn(lengths.lengths_for("blue", "large"), 1000)

    assert 10 == lengths.expected(lengths.lengths_for("blue", "tiny"))
    assert 1000 == lengths.expected(lengths.lengths_for("blue", "large"))
    assert 512.0 == lengths.expected(lengths.lengths_for("red", "tiny"))


def test_those_not_heard_of_for_longest_are_forgotten() -> None:
    lengths = OutputLengths(default=512.0)
    for _ in range(8):
        lengths.learn(lengths.lengths_for("blue", "busy"), 10)
        lengths.learn(lengths.lengths_for("blue", "rare"), 10)
    for number in range(output_length.MOST_PAIRS - 1):
        lengths.learn(lengths.lengths_for("blue", "busy"), 10)
        lengths.learn(lengths.lengths_for("red", f"model-{number}"), 10)

    assert 10 == lengths.expected(lengths.lengths_for("blue", "busy"))
    assert 512.0 == lengths.expected(lengths.lengths_for("blue", "rare"))


def test_a_tenth_of_mixed_answers_is_longer() -> None:
    """Whatever their distribution: of many answers, those above what was expected are about one of ten."""
    rng = random.Random(1)
    lengths = OutputLengths(default=512.0)
    longer = 0
    for _ in range(20_000):
        tokens = rng.choice([rng.randrange(1, 50), rng.randrange(1, 3000)])
        longer += tokens > lengths.expected(lengths.lengths_for("blue", "tiny"))
        lengths.learn(lengths.lengths_for("blue", "tiny"), tokens)

    assert 0.08 < longer / 20_000 < 0.13
