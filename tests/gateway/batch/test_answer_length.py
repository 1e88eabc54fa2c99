"""Expected lengths of answers, from odd fields and from answers so far."""

import math

import msgspec
import pytest

from gateway.batch.answer_length import AnswerLength, AskedAnswer
from gateway.tenancy.ledger.entry import Entry
from tests.contracts.quota_stage import entry


def answered(completion: int) -> Entry:
    made = entry("a")
    made.completion_tokens = completion
    return made


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ("{}", math.inf),
        ('{"max_tokens": 100}', 100.0),
        ('{"max_tokens": 100, "max_completion_tokens": 300}', 300.0),
        ('{"max_output_tokens": 7, "n": 3}', 21.0),
        ('{"max_tokens": 100, "n": -5}', 100.0),
        ('{"max_tokens": -1}', math.inf),
        ('{"max_tokens": "many", "n": [2]}', math.inf),
        ('{"max_tokens": 0, "model": "tiny"}', math.inf),
    ],
)
def test_the_longest_answer_is_what_the_line_allows(fields: str, most: float) -> None:
    """Values that are no positive numbers limit nothing."""
    assert most == msgspec.json.decode(fields, type=AskedAnswer).most_tokens


def test_the_first_answers_are_expected_to_be_as_long_as_they_may_be() -> None:
    length = AnswerLength()

    assert [4000.0, 1024.0] == [length.expected(4000.0), length.expected(math.inf)]


def test_later_answers_are_expected_to_be_as_long_as_the_mean() -> None:
    """An answer with a smaller limit is shorter. Lines that generate nothing teach nothing."""
    length = AnswerLength()
    length.note_entry(answered(160))
    assert [160.0, 160.0, 20.0] == [length.expected(4000.0), length.expected(math.inf), length.expected(20.0)]

    length.note_entry(answered(320))
    length.note_entry(answered(0))
    length.note_entry(None)
    assert 170.0 == length.expected(math.inf)
