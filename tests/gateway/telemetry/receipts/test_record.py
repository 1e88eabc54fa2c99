"""The compact form of a receipt, and the cost of a decision in hindsight."""

import math
import struct
import sys

import pytest

from gateway.protocol.usage import Usage
from gateway.proxy.decision import CANDIDATE
from gateway.proxy.exchange import Exchange
from gateway.telemetry.receipts.record import HEAD, Packer, hindsight_cost_s
from tests.gateway.telemetry.receipts.examples import SECONDS_OF_2026, a_decision, a_record, answered
from tests.gateway.telemetry.trace_export.examples import a_trace
from tests.routing.examples import a_candidate


def hindsight_s(exchange: Exchange) -> float:
    assert exchange.decision is not None
    return round(hindsight_cost_s(exchange, exchange.decision), 6)


def test_the_numbers_have_the_documented_formats() -> None:
    """A head, and 43 bytes for each of two candidates."""
    numbers = a_record().numbers

    assert 83 == struct.calcsize(HEAD)
    assert 43 == struct.calcsize(CANDIDATE)
    assert 83 + 2 * 43 == len(numbers)
    assert (SECONDS_OF_2026, 2.0, 200, 1.5) == struct.unpack_from("<dfif", numbers)


def test_what_filters_need_is_read_without_the_rest() -> None:
    record = a_record()

    assert (SECONDS_OF_2026, 2.0, 200) == (record.began_at, record.duration_s, record.status)
    assert ("a", "b") == record.workers


def test_a_plain_request_has_no_rare_facts() -> None:
    assert a_record().rare is None
    assert a_record(answered(failures=(("b", "ConnectFailed"),))).rare is not None
    assert a_record(answered(refused_by="key/tokens_per_minute")).rare is not None


def test_requests_with_the_same_spans_share_their_names() -> None:
    packer = Packer()
    names = []
    for _ in range(2):
        trace = a_trace()
        trace.enter("authenticate")
        rare = packer.record(answered(trace=trace), 102.0, 0.0).rare
        assert rare is not None
        assert rare.spans is not None
        names.append(rare.spans[0])

    assert ("authenticate",) == names[0]
    assert names[0] is names[1]


def test_counts_beyond_their_fields_are_cut() -> None:
    """2**31 tokens and 2**15 attempts are more than any request has."""
    numbers = a_record(answered(attempts=100_000, usage=Usage(3_000_000_000, 9, None))).numbers

    assert (2**31 - 1, -1, 9) == struct.unpack_from("<3i", numbers, 56)
    assert (2**15 - 1,) == struct.unpack_from("<h", numbers, 76)


def test_the_cost_in_hindsight_is_the_predicted_cost_if_the_prediction_was_right() -> None:
    """Worker a costs 0.25 + 0.01 + 0.2 s."""
    assert 0.46 == hindsight_s(answered())


def test_the_cost_in_hindsight_includes_the_missing_part_of_the_hit() -> None:
    """The engine had only 100 of the 800 tokens: 0.25 + 0.01 + 0.9 s."""
    assert 1.16 == hindsight_s(answered(usage=Usage(1000, 9, 100)))


@pytest.mark.parametrize(
    "known",
    [
        {"usage": None},
        {"usage": Usage(1000, 9, None)},
        {"backend": "b"},
        {"attempts": 2},
        {"continued": 1},
        {"prefill": "remote"},
    ],
)
def test_a_reported_hit_counts_only_if_it_belongs_to_the_decision(known: dict[str, object]) -> None:
    facts = {"usage": Usage(1000, 9, 100), **known}

    assert 0.46 == hindsight_s(answered(**facts))


def test_the_cost_in_hindsight_has_the_price_of_the_ranking() -> None:
    """Each second of prefill counts twice if half of the time is busy: 0.02 + 0.4 s predicted, 2.02 s in hindsight."""
    busy = a_decision(a_candidate("a", hit_tokens=800.0, busy_share=0.5), a_candidate("b", busy_share=0.5))

    assert 0.42 == hindsight_s(answered(decision=busy))
    assert 2.02 == hindsight_s(answered(decision=busy, usage=Usage(1000, 9, 0)))


def test_without_a_candidate_there_is_no_cost() -> None:
    assert math.isnan(hindsight_s(answered(decision=a_decision())))


def test_a_record_is_small() -> None:
    """About 400 bytes with its request id; strings such as names of workers are shared with other objects."""
    record = a_record(answered(request_id=b"%032x" % 7))
    own = (record, record.numbers, record.request_id)

    assert sum(map(sys.getsizeof, own)) + 16 < 500  # and the header of the garbage collector
