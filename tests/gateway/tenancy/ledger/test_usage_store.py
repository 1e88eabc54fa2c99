import pytest

from gateway.protocol.errors import InvalidField
from gateway.tenancy.ledger.measures import Measures
from gateway.tenancy.ledger.usage_store import Filter, Period, RecordQuery, UsageSum
from tests.gateway.tenancy.ledger.examples import a_record


@pytest.mark.parametrize(
    ("month", "last"), [("2026-11", "30"), ("2026-12", "31"), ("2027-02", "28"), ("2028-02", "29")]
)
def test_a_month_has_all_of_its_days(month: str, last: str) -> None:
    assert Period(f"{month}-01", f"{month}-{last}") == Period.month(month)


@pytest.mark.parametrize("month", ["", "2026", "2026-13", "2026-00", "2026-1", "0000-01", "2026-11-01", "٢٠٢٦-11"])
def test_an_invalid_month_is_refused(month: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Period.month(month)

    assert "month" == refused.value.param


def test_a_sum_is_in_dollars() -> None:
    measures = Measures(requests=3, completion_tokens=5, cost_nano=1_000_000_001, saved_nano=2, fallback_cost_nano=3)

    one = UsageSum.from_group({"team": "blue"}, measures)

    assert (3, 5) == (one.requests, one.completion_tokens)
    assert (1.000000001, 2e-9, 3e-9) == (one.cost_usd, one.saved_usd, one.fallback_cost_usd)


@pytest.mark.parametrize(
    ("query", "admitted"),
    [
        (RecordQuery(period=Period.month("2026-11")), True),
        (RecordQuery(period=Period.month("2026-11"), of=Filter(team="blue", key="ci", project="", backend="w1")), True),
        (RecordQuery(period=Period.month("2026-11"), of=Filter(model="big")), False),
        (RecordQuery(period=Period.month("2026-11"), of=Filter(backend="")), False),
        (RecordQuery(period=Period.month("2026-11"), since="2026-11-21T08:00:00.000Z"), True),
        (RecordQuery(period=Period.month("2026-11"), until="2026-11-21T08:00:00.000Z"), False),
        (RecordQuery(period=Period.month("2026-11"), user="ann"), False),
        (RecordQuery(period=Period.month("2026-11"), outcome="ok", request_id="req-1"), True),
    ],
)
def test_a_query_admits_what_it_asks_for(query: RecordQuery, *, admitted: bool) -> None:
    assert admitted is query.admits(a_record())
