import pytest

from gateway.models.model_names import ModelNames


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ("tiny", "tiny"),
        ("gpt-4o", "tiny"),
        ("gpt-4o-mini", "large"),
        ("gpt-4-turbo", "large"),
        ("gpt-4", "large"),
        ("gpt-3.5", "old"),
        ("gpt-", "old"),
        ("gpt", None),
        ("", None),
        ("Tiny", None),
    ],
)
def test_an_exact_name_wins_then_the_longest_pattern(requested: str, expected: str | None) -> None:
    """Names and aliases come first, then the longest prefix that ends in ``*``; anything else is unknown."""
    names = ModelNames([("tiny", ["gpt-4o"]), ("large", ["gpt-4*"]), ("old", ["gpt-*"])])

    assert expected == names.resolve(requested)


def test_a_lone_star_takes_every_name() -> None:
    """The pattern ``*`` is the prefix of everything, and gives way to anything longer."""
    names = ModelNames([("any", ["*"]), ("tiny", ["t*"])])

    assert "any" == names.resolve("")
    assert "any" == names.resolve("gpt-4o")
    assert "tiny" == names.resolve("tiny-2")


def test_without_patterns_an_unknown_name_is_not_one() -> None:
    """No model is guessed."""
    names = ModelNames([("tiny", [])])

    assert names.resolve("tiny-2") is None


def test_a_star_in_a_request_is_no_pattern() -> None:
    """Only configured aliases hold patterns; what clients send is a name."""
    names = ModelNames([("large", ["gpt-4*"])])

    assert names.resolve("gpt-*") is None
    assert "large" == names.resolve("gpt-4*")
