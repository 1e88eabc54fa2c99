"""/admin/v1/usage."""

import csv
import io
import json
from typing import Any

import pytest

from tests.gateway.api.admin_v1.administration import Administration, administration, fault, message
from tests.gateway.tenancy.ledger.examples import A_RECORD, an_entry

NOTHING = {
    "requests": 0,
    "failed": 0,
    "aborted": 0,
    "lost": 0,
    "fallbacks": 0,
    "prompt_tokens": 0,
    "cached_tokens": 0,
    "completion_tokens": 0,
    "cost_usd": 0.0,
    "saved_usd": 0.0,
    "fallback_cost_usd": 0.0,
}
ONE = NOTHING | {
    "requests": 1,
    "prompt_tokens": 100,
    "cached_tokens": 60,
    "completion_tokens": 20,
    "cost_usd": 0.001,
    "saved_usd": 0.0004,
}


async def test_a_team_that_used_nothing_has_sums_of_nought(admin: Administration) -> None:
    """This month's, where none is asked for."""
    await admin.make("teams", name="blue")

    assert {
        "object": "usage",
        "from": "2026-11-01",
        "to": "2026-11-30",
        "group_by": [],
        "data": [NOTHING],
        "total": NOTHING,
    } == await admin.get("/usage?team=blue")


async def test_sums_by_group(admin: Administration) -> None:
    """The values of a group stand beside its sums; the total is of all."""
    await admin.book(
        an_entry(),
        an_entry(model="big", fell_back=True, backend="bedrock"),
        an_entry(team="red"),
        an_entry(team="red", outcome="failed"),
    )
    shown = await admin.get("/usage?group_by=team,model")

    assert ["team", "model"] == shown["group_by"]
    assert [
        {"team": "blue", "model": "big"} | ONE | {"fallbacks": 1, "fallback_cost_usd": 0.001},
        {"team": "blue", "model": "tiny"} | ONE,
        {"team": "red", "model": "tiny"}
        | {name: 2 * value for name, value in ONE.items()}
        | {"failed": 1, "cost_usd": 0.002, "saved_usd": 0.0008},
    ] == shown["data"]
    assert (4, 1, 0.004, 0.001) == tuple(
        shown["total"][name] for name in ("requests", "failed", "cost_usd", "fallback_cost_usd")
    )


@pytest.mark.parametrize(
    ("query", "requests"),
    [
        ("", 4),
        ("month=2026-11", 4),
        ("month=2026-10", 1),
        ("from=2026-10-31", 4),
        ("from=2026-10-31&to=2026-11-20", 2),
        ("from=2026-11-21&to=2026-11-21", 2),
        ("team=blue", 3),
        ("team=green", 0),
        ("team=red&month=2026-10", 0),
        ("key=other", 1),
        ("key=of-green", 0),
        ("project=search", 1),
        ("project=", 3),
        ("model=big", 1),
        ("backend=w1&team=red", 1),
    ],
)
async def test_sums_of_some(admin: Administration, query: str, requests: int) -> None:
    """`from` without `to` is until today, and tomorrow's entry of another time zone is not in it."""
    await admin.make("teams", name="green")
    await admin.make("keys", id="of-green", team="green")
    await admin.book(
        an_entry("2026-10-31"),
        an_entry("2026-11-20", key="other"),
        an_entry(project="search", model="big"),
        an_entry(team="red"),
        an_entry("2026-11-22"),
    )

    assert requests == (await admin.get(f"/usage?{query}"))["total"]["requests"]


async def test_today_is_that_of_the_ledgers_time_zone() -> None:
    """At 08:00 UTC the day has not begun in Honolulu, nor has a month on its first."""
    async with administration(time_zone="Pacific/Honolulu") as admin:
        days = await admin.get("/usage?from=2026-11-01")
        admin.clock.now += 10 * 86_400  # 1 December, 08:00 UTC
        month = await admin.get("/usage")

    assert "2026-11-20" == days["to"]
    assert "2026-11-30" == month["to"]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("month=2026-13", "month"),
        ("month=November", "month"),
        ("month=0000-01", "month"),
        ("from=2026-11-31", "from"),
        ("from=0000-01-01", "from"),
        ("from=yesterday", "from"),
        ("from=2026-11-02&to=2026-11-01", "to"),
        ("from=2026-11-22", "to"),
        ("to=2026-11-01", "from"),
        ("month=2026-11&from=2026-11-01", "month"),
        ("group_by=teams", "group_by[0]"),
        ("group_by=team,", "group_by[1]"),
        ("team=" + "x" * 257, "team"),
    ],
)
async def test_a_question_that_cannot_be_answered(admin: Administration, query: str, param: str) -> None:
    assert (400, None, param) == fault(await admin.ask("GET", f"/usage?{query}"))


@pytest.mark.parametrize("path", ["/usage?", "/usage/users?", "/usage/records?", "/usage/export?"])
async def test_a_team_that_there_never_was_is_not_one_that_used_nothing(admin: Administration, path: str) -> None:
    """Neither the store nor the ledger knows it. One that was deleted is in the ledger, in whatever month."""
    await admin.make("teams", name="new")
    await admin.book(an_entry("2026-09-01", team="gone"))
    refused = await admin.ask("GET", f"{path}team=nwe")

    assert (404, "not_found", "team") == fault(refused)
    assert "There is no team 'nwe'" == message(refused)
    assert [200, 200] == [(await admin.ask("GET", f"{path}team={team}")).status_code for team in ("new", "gone")]


@pytest.mark.parametrize("path", ["/usage?", "/usage/records?", "/usage/export?"])
async def test_a_key_that_used_nothing_must_be_there(admin: Administration, path: str) -> None:
    """One that is no more is known by what it used."""
    await admin.make("teams", name="blue")
    await admin.make("keys", id="new", team="blue")
    await admin.book(an_entry(key="gone"))
    refused = await admin.ask("GET", f"{path}key=nwe")

    assert (404, "not_found", "key") == fault(refused)
    assert "There is no key 'nwe'" == message(refused)
    assert [200, 200] == [(await admin.ask("GET", f"{path}key={key}")).status_code for key in ("new", "gone")]


async def test_sums_as_csv(admin: Administration) -> None:
    await admin.book(an_entry(), an_entry(team="red", model="=big"))
    answer = await admin.ask("GET", "/usage?group_by=team,model,day&format=csv", who="vi")
    rows = list(csv.DictReader(io.StringIO(answer.text)))

    assert "text/csv; charset=utf-8; header=present" == answer.headers["content-type"]
    assert 'attachment; filename="usage-2026-11-01-2026-11-30.csv"' == answer.headers["content-disposition"]
    assert [("blue", "tiny", "2026-11-21", "0.001"), ("red", "'=big", "2026-11-21", "0.001")] == [
        (row["team"], row["model"], row["day"], row["cost_usd"]) for row in rows
    ]


async def test_sums_of_nothing_as_csv_have_their_columns(admin: Administration) -> None:
    answer = await admin.ask("GET", "/usage?group_by=team,day&format=csv", who="vi")

    assert answer.text.startswith("team,day,requests,failed,")
    assert 1 == len(answer.text.splitlines())


async def test_a_group_that_is_asked_for_twice_is_one(admin: Administration) -> None:
    await admin.book(an_entry())

    assert ["day", "team"] == (await admin.get("/usage?group_by=day&group_by=team,day"))["group_by"]


async def test_end_users_of_a_team(admin: Administration) -> None:
    await admin.book(an_entry(user="ann"), an_entry(user="bob", cost_usd=0.5), an_entry(user="eve", team="red"))
    shown = await admin.get("/usage/users?team=blue&month=2026-11")
    bob = await admin.get("/usage/users?team=blue&user=bob&limit=1")

    assert ["bob", "ann"] == [each["user"] for each in shown["data"]]
    assert [0.5] == [each["cost_usd"] for each in bob["data"]]


async def test_of_whose_end_users_must_be_said(admin: Administration) -> None:
    assert (400, None, "team") == fault(await admin.ask("GET", "/usage/users"))


async def test_single_requests_in_pages(admin: Administration) -> None:
    """The latest first; as they were booked."""
    await admin.book(*(an_entry(request_id=f"r{i}") for i in range(5)))
    first = await admin.get("/usage/records?limit=3")
    second = await admin.get(f"/usage/records?limit=3&after={first['next']}")

    assert ["r4", "r3", "r2", "r1", "r0"] == [each["request_id"] for each in first["data"] + second["data"]]
    assert (True, False, None) == (first["has_more"], second["has_more"], second["next"])
    assert {name: getattr(A_RECORD, name) for name in A_RECORD.__struct_fields__} | {"request_id": "r0"} == second[
        "data"
    ][-1]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("request_id=r1", ["r1"]),
        ("user=ann", ["r2"]),
        ("outcome=failed", ["r3"]),
        ("team=red", ["r4"]),
        ("month=2026-10", []),
    ],
)
async def test_some_single_requests(admin: Administration, query: str, found: list[str]) -> None:
    await admin.book(
        an_entry(request_id="r1"),
        an_entry(request_id="r2", user="ann"),
        an_entry(request_id="r3", outcome="failed"),
        an_entry(request_id="r4", team="red"),
    )

    assert found == [each["request_id"] for each in (await admin.get(f"/usage/records?{query}"))["data"]]


async def test_a_cursor_that_is_not_one(admin: Administration) -> None:
    assert (400, None, "after") == fault(await admin.ask("GET", "/usage/records?after=xyz"))


async def test_an_export_as_csv(admin: Administration) -> None:
    await admin.book(*(an_entry(request_id=f"r{i}", user="=1+1") for i in range(1200)))
    response = await admin.ask("GET", "/usage/export?team=blue", who="vi")
    rows = list(csv.DictReader(io.StringIO(response.text)))

    assert 200 == response.status_code
    assert "text/csv" in response.headers["content-type"]
    assert 'attachment; filename="usage-2026-11-01-2026-11-30.csv"' == response.headers["content-disposition"]
    assert [f"r{i}" for i in reversed(range(1200))] == [row["request_id"] for row in rows]
    assert {"'=1+1"} == {row["user"] for row in rows}


async def test_an_export_as_json_lines(admin: Administration) -> None:
    await admin.book(an_entry(request_id="r1"), an_entry(request_id="r2"), an_entry(team="red"))
    response = await admin.ask("GET", "/usage/export?format=jsonl&team=blue")
    rows: list[Any] = [json.loads(line) for line in response.text.splitlines()]

    assert "application/jsonl" == response.headers["content-type"]
    assert ["r2", "r1"] == [row["request_id"] for row in rows]


@pytest.mark.parametrize(("kind", "text"), [("jsonl", ""), ("csv", ",".join(A_RECORD.__struct_fields__) + "\r\n")])
async def test_an_export_of_nothing(admin: Administration, kind: str, text: str) -> None:
    assert text == (await admin.ask("GET", f"/usage/export?format={kind}")).text


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
async def test_an_export_that_cannot_begin_is_an_error(admin: Administration, kind: str) -> None:
    """Not an empty file."""
    await admin.file.run(lambda connection: connection.execute("DROP TABLE usage_chunks"))

    assert (503, "store_unavailable", None) == fault(await admin.ask("GET", f"/usage/export?format={kind}"))
