import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.batch.plan import (
    LineFault,
    PlanJob,
    Planned,
    packed,
    plan,
    planned_lines,
    read_line,
)

CHAT = "/v1/chat/completions"


def a_line(custom_id: str = "1", prompt: str = "Hi", **changes: Any) -> dict[str, Any]:
    body = {"model": "tiny", "messages": [{"role": "user", "content": prompt}]}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body, **changes}


def planned(folder: Path, *lines: Any, text: bytes | None = None, **limits: Any) -> Planned:
    """The result of a validation, without the lengths of prompts."""
    return msgspec.structs.replace(measured(folder, *lines, text=text, **limits), prompt_bytes={})


def measured(folder: Path, *lines: Any, text: bytes | None = None, **limits: Any) -> Planned:
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines) if text is None else text
    (folder / "in").write_bytes(data)
    usual = {"endpoint": CHAT, "max_lines": 100, "max_line_bytes": 10_000}
    found, lines_in_order = plan(PlanJob(str(folder / "in"), **{**usual, **limits}))
    (folder / "plan").write_bytes(packed(lines_in_order))
    return found


def order(folder: Path) -> list[str]:
    """Custom ids in the order of the plan."""
    data = (folder / "in").read_bytes()
    lines = planned_lines((folder / "plan").read_bytes())
    return [read_line(data[line.start : line.start + line.length]).custom_id for line in lines]


def test_a_valid_file_is_planned(tmp_path: Path) -> None:
    assert Planned(2, [], {"tiny": 1}) == planned(tmp_path, a_line("1"), a_line("2"))
    assert ["1", "2"] == sorted(order(tmp_path))


def test_prompts_that_begin_alike_are_neighbors(tmp_path: Path) -> None:
    """Whatever their order in the file is, and at every depth of the tree of prefixes."""
    shared = [letter * 2000 for letter in "abc"]
    lines = [
        a_line(f"{one}{two}{n}", shared[one] + shared[two] + str(n))
        for n in range(3)
        for two in (0, 1)
        for one in (0, 1, 2)
    ]
    planned(tmp_path, *lines)

    groups = [each[:2] for each in order(tmp_path)]
    changes = sum(one != other for one, other in pairwise(groups))
    roots = [each[0] for each in groups]
    assert 5 == changes
    assert 2 == sum(one != other for one, other in pairwise(roots))


def test_the_prompts_of_each_model_are_measured(tmp_path: Path) -> None:
    """Their lengths are those of the prompts of all lines together."""
    line = a_line("1", "x" * 100)
    large = {**line["body"], "model": "large"}
    one = measured(tmp_path, line).prompt_bytes["tiny"]
    found = measured(tmp_path, line, {**line, "custom_id": "2"}, {**line, "custom_id": "3", "body": large})

    assert 100 < one < 200
    assert {"tiny": 2 * one, "large": one} == found.prompt_bytes


def test_models_are_apart(tmp_path: Path) -> None:
    lines = [a_line(str(n)) for n in range(4)]
    for line in lines[::2]:
        line["body"] = {**line["body"], "model": "large"}

    assert {"large": 1, "tiny": 2} == planned(tmp_path, *lines).models
    assert {("0", "2"), ("1", "3")} == {tuple(order(tmp_path)[:2]), tuple(order(tmp_path)[2:])}


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    text = b"\n" + json.dumps(a_line("1")).encode() + b"\r\n  \n" + json.dumps(a_line("2")).encode()
    found = planned(tmp_path, text=text)

    assert Planned(2, [], {"tiny": 2}) == found
    assert {2, 4} == {line.number for line in planned_lines((tmp_path / "plan").read_bytes())}


@pytest.mark.parametrize(
    ("line", "code", "param"),
    [
        ("text", "invalid_json_line", None),
        ({"custom_id": "1"}, "invalid_json_line", None),
        ({**a_line(), "custom_id": 7}, "invalid_json_line", None),
        (a_line(""), "invalid_custom_id", "custom_id"),
        (a_line("x" * 513), "invalid_custom_id", "custom_id"),
        (a_line("first"), "duplicate_custom_id", "custom_id"),
        (a_line(method="GET"), "invalid_method", "method"),
        (a_line(url="/v1/embeddings"), "mismatched_endpoint", "url"),
        (a_line(body={"model": "tiny"}), "invalid_request", "body.messages"),
        (a_line(body={"messages": [{"role": "user", "content": "x"}]}), "invalid_request", "body.model"),
        (a_line(body={**a_line()["body"], "stream": True}), "invalid_request", "body.stream"),
        (a_line(prompt="x" * 10_000), "line_too_long", None),
    ],
)
def test_a_fault_names_its_line_and_field(tmp_path: Path, line: Any, code: str, param: str | None) -> None:
    found = planned(tmp_path, a_line("first"), line, a_line("last"))

    assert [(code, param, 2)] == [(fault.code, fault.param, fault.line) for fault in found.faults]
    assert b"" == (tmp_path / "plan").read_bytes()


def test_the_lines_after_a_long_line_are_read(tmp_path: Path) -> None:
    found = planned(tmp_path, a_line("1", "x" * 3_000_000), a_line("2"), a_line("3", method="PUT"))

    assert [1, 3] == [fault.line for fault in found.faults]


def test_a_file_has_so_many_lines(tmp_path: Path) -> None:
    lines = [a_line(str(n)) for n in range(4)]

    assert [("too_many_lines", 4)] == [(each.code, each.line) for each in planned(tmp_path, *lines, max_lines=3).faults]


def test_a_file_without_lines_has_a_fault(tmp_path: Path) -> None:
    expected = LineFault("empty_file", "The file has no lines", "input_file_id", None)

    assert [expected] == planned(tmp_path, text=b"\n \n").faults


def test_only_so_many_faults_are_reported(tmp_path: Path) -> None:
    assert 100 == len(planned(tmp_path, text=b"x\n" * 1000, max_lines=1000).faults)


def test_only_so_many_models_are_named(tmp_path: Path) -> None:
    lines = [a_line(str(n)) for n in range(101)]
    for n, line in enumerate(lines):
        line["body"] = {**line["body"], "model": f"m{n}"}

    assert ["too_many_models"] == [fault.code for fault in planned(tmp_path, *lines, max_lines=200).faults]


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/completions", {"model": "tiny", "prompt": "Hi"}),
        ("/v1/embeddings", {"model": "tiny", "input": ["Hi"]}),
        ("/v1/responses", {"model": "tiny", "input": "Hi"}),
    ],
)
def test_other_endpoints_are_planned(tmp_path: Path, endpoint: str, body: dict[str, Any]) -> None:
    line = a_line(url=endpoint, body=body)

    assert Planned(1, [], {"tiny": 1}) == planned(tmp_path, line, endpoint=endpoint)


def test_a_line_knows_what_follows_the_prompt_before(tmp_path: Path) -> None:
    """In whole blocks of 256 bytes."""
    planned(tmp_path, a_line("1", "a" * 1000 + "b" * 500), a_line("2", "a" * 1000), a_line("3", "c" * 300))
    found = planned_lines((tmp_path / "plan").read_bytes())

    sizes = {line.number: line.prompt_bytes for line in found}
    new = {line.number: line.prompt_bytes - line.step_bytes for line in found}
    assert 500 == sizes[1] - sizes[2]
    assert [0, 0, 768] == sorted(new.values())
    assert 0 == new[3]
