import csv
import io
import json

import pytest

from tests.gateway.cli.commands.terminal import Terminal, entry, terminal

__all__ = ["terminal"]

NAMES = [
    *("requests", "failed", "aborted", "lost", "fallbacks", "prompt_tokens", "cached_tokens", "completion_tokens"),
    *("cost_usd", "saved_usd", "fallback_cost_usd"),
]


@pytest.fixture
def booked(terminal: Terminal) -> Terminal:
    """Three requests in November, of two keys and two teams, and one in October."""
    terminal.book(
        [
            entry(request_id="r-1"),
            entry(request_id="r-2", key="=cmd", outcome="aborted", cost_usd=0.125),
            entry(request_id="r-3", team="green", key="g", model="large", fell_back=True, backend="bedrock"),
            entry("2026-10-31", request_id="r-0"),
        ]
    )
    return terminal


def test_a_month_of_a_team_is_one_line(booked: Terminal) -> None:
    """Under the days that it stands for."""
    assert [
        ["2026-11-01", "to", "2026-11-30"],
        [],
        [word.upper() for name in NAMES for word in name.split("_")],
        ["2", "0", "1", "0", "0", "200", "120", "20", "0.375", "1", "0"],
    ] == booked.there("usage", "--team", "blue", "--month", "2026-11").rows


def test_groups_have_a_line_each_and_a_total(booked: Terminal) -> None:
    arguments = ("usage", "--from", "2026-10-01", "--to", "2026-11-30", "--by", "team,key", "--by", "month")

    assert [
        ["TEAM", "KEY", "MONTH", "REQUESTS"],
        ["blue", "=cmd", "2026-11", "1"],
        ["blue", "ci", "2026-10", "1"],
        ["blue", "ci", "2026-11", "1"],
        ["green", "g", "2026-11", "1"],
        ["total", "-", "-", "4"],
    ] == [row[:4] for row in booked.there(*arguments).rows[2:]]


@pytest.mark.parametrize(
    ("option", "requests"),
    [("--key=ci", 1), ("--team=green", 1), ("--model=large", 1), ("--backend=bedrock", 1), ("--project=p", 0)],
)
def test_each_option_narrows_what_is_added_up(booked: Terminal, option: str, requests: int) -> None:
    """All that are given hold."""
    reported = booked.there("usage", "--month", "2026-11", option, "--json").json

    assert requests == reported["total"]["requests"]


def test_json_is_the_answer_of_the_api(booked: Terminal) -> None:
    """Groups and total."""
    reported = booked.there("usage", "--team", "blue", "--month", "2026-11", "--by", "model", "--json").json

    assert ("2026-11-01", "2026-11-30", ["model"]) == (reported["from"], reported["to"], reported["group_by"])
    assert [("tiny", 2, 0.375)] == [(row["model"], row["requests"], row["cost_usd"]) for row in reported["data"]]
    assert 2 == reported["total"]["requests"]


def test_csv_is_for_a_spreadsheet(booked: Terminal) -> None:
    """A line for each group and no total; nothing in it is a formula."""
    rows = list(csv.reader(io.StringIO(booked.there("usage", "--month", "2026-11", "--by", "key", "--csv").out)))

    assert [
        ["key", *NAMES],
        ["'=cmd", "1", "0", "1", "0", "0", "100", "60", "10", "0.125", "0.5", "0"],
        ["ci", "1", "0", "0", "0", "0", "100", "60", "10", "0.25", "0.5", "0"],
        ["g", "1", "0", "0", "0", "1", "100", "60", "10", "0.25", "0.5", "0.25"],
    ] == rows


def test_single_requests_can_be_exported(booked: Terminal) -> None:
    arguments = ("usage", "--records", "--team", "blue", "--month", "2026-11")
    rows = list(csv.DictReader(io.StringIO(booked.there(*arguments).out)))
    lines = booked.there(*arguments, "--json").out.splitlines()

    assert ["r-2", "r-1"] == [row["request_id"] for row in rows]
    assert ["r-2", "r-1"] == [json.loads(line)["request_id"] for line in lines]


def test_a_store_that_is_new_has_used_nothing(terminal: Terminal) -> None:
    """No gateway has opened it yet."""
    assert 0 == terminal.there("usage", "--json").json["total"]["requests"]


@pytest.mark.parametrize("how", [(), ("--json",), ("--csv",), ("--records",)])
@pytest.mark.parametrize(
    ("name", "said"),
    [("--team=nope", "There is no team 'nope'.\n"), ("--key=nope", "There is no key 'nope'.\n")],
)
def test_a_name_that_no_one_knows_is_said(booked: Terminal, name: str, said: str, how: tuple[str, ...]) -> None:
    """It is not the same as having used nothing, as the team of the settings has."""
    assert (1, said) == booked.fails("usage", name, *how)
    assert 0 == booked.there("usage", "--team=declared", "--key=of-the-file", "--json").json["total"]["requests"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--month", "11-2026"), "argument --month: '11-2026' is not a month such as 2026-11"),
        (("--from", "yesterday"), "argument --from: 'yesterday' is not a day such as 2026-11-21"),
        (
            ("--by", "team,colour"),
            "argument --by: 'colour' is not one of month, day, team, key",
        ),
        (("--csv", "--json"), "--csv cannot be combined with --json"),
        (("--records", "--by", "team"), "--by cannot be combined with --records"),
        (("--month", "2026-11", "--from", "2026-11-01"), "--month cannot be combined with --from or --to"),
        (("--to", "2026-11-01"), "--to requires --from.\n"),
        (("--from", "2026-11-02", "--to", "2026-11-01"), "'to' is before 'from'.\n"),
    ],
)
def test_what_makes_no_sense_is_said(terminal: Terminal, arguments: tuple[str, ...], said: str) -> None:
    """It is bad usage."""
    code, err = terminal.fails("usage", *arguments)

    assert 2 == code
    assert said in err
