import gzip
from pathlib import Path

import pytest

from replay.trace import boundless_hit_rate, parse_trace, read_trace
from tests.replay.examples import asked, session, three, written


def test_the_last_id_is_a_partial_block(tmp_path: Path) -> None:
    """Two full blocks of 512 tokens, though there are three ids; an empty answer counts as one token."""
    trace = read_trace(three(tmp_path))

    assert 512 == trace.block_tokens
    assert not trace.is_closed_loop
    assert [(1, 2), (1, 4), (1, 4)] == [request.blocks for request in trace.requests]
    assert [21, 1, 1] == [request.output_tokens for request in trace.requests]
    assert [0.0, 5.0, 15.0] == [request.wait_s for request in trace.requests]


def test_sessions_make_a_closed_loop(tmp_path: Path) -> None:
    """A line is a session; pauses count from the answer before."""
    trace = read_trace(written(tmp_path, session(1), session(2)))

    assert trace.is_closed_loop
    assert 1024 == trace.block_tokens
    assert ["1", "1", "2", "2"] == [request.session for request in trace.requests]
    assert [0, 1, 2, 3] == [request.number for request in trace.requests]
    assert [0.0, 9.0, 0.0, 9.0] == [request.wait_s for request in trace.requests]


def test_sub_agents_belong_to_the_session_before_them(tmp_path: Path) -> None:
    """A session of three requests spawns two sub-agents; a part of one session includes them."""
    parent = session(1, turns=3)
    parent["requests"][1]["spawns"] = "1/g"
    agents = [{**session(number, turns=1), "group": "1/g"} for number in (2, 3)]
    trace = read_trace(written(tmp_path, parent, *agents, session(4)))

    assert [None, "1/g", None, None, None, None, None] == [request.spawns for request in trace.requests]
    assert [None, None, None, "1/g", "1/g", None, None] == [request.group for request in trace.requests]
    assert ["1", "1", "1", "2", "3"] == [request.session for request in trace.part(0, 1).requests]
    assert ["4", "4"] == [request.session for request in trace.part(1, None).requests]


def test_gzipped_or_not_is_the_same(tmp_path: Path) -> None:
    """The ending says which."""
    plain = three(tmp_path)
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert read_trace(plain) == read_trace(packed)


def test_a_part_of_an_open_loop_begins_with_its_first_request(tmp_path: Path) -> None:
    """The second of three requests, which came 5 s after the first."""
    (only,) = read_trace(three(tmp_path)).part(1, 1).requests

    assert (1, 0.0, (1, 4)) == (only.number, only.wait_s, only.blocks)


def test_a_part_of_a_closed_loop_is_whole_sessions(tmp_path: Path) -> None:
    """One of three is left out; pauses stay."""
    part = read_trace(written(tmp_path, *(session(number) for number in range(3)))).part(1, None)

    assert part.is_closed_loop
    assert [("1", 0.0), ("1", 9.0), ("2", 0.0), ("2", 9.0)] == [(each.session, each.wait_s) for each in part.requests]


def test_all_of_it_is_the_trace_itself(tmp_path: Path) -> None:
    """Nothing skipped, no limit."""
    trace = read_trace(three(tmp_path))

    assert trace == trace.part(0, None)


def test_nothing_left_is_no_trace(tmp_path: Path) -> None:
    """Three requests, three skipped."""
    with pytest.raises(ValueError, match="nothing is left of the trace after the first 3"):
        read_trace(three(tmp_path)).part(3, None)


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    """Not even a size of blocks would follow from it."""
    with pytest.raises(ValueError, match=r"trace.jsonl is empty"):
        read_trace(written(tmp_path))


def test_a_boundless_cache_holds_all_that_was_asked_before(tmp_path: Path) -> None:
    """One block of the second prompt, two of the third."""
    assert pytest.approx(3 * 512 / 3300) == boundless_hit_rate(read_trace(three(tmp_path)))


def test_the_last_token_of_a_prompt_is_no_hit(tmp_path: Path) -> None:
    path = written(tmp_path, asked(0, 1024, [1, 2]), asked(1, 1024, [1, 2]))

    assert pytest.approx(512 / 2048) == boundless_hit_rate(read_trace(path))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "line 1 is not JSON"),
        (["[1]"], "line 1 is not an object"),
        (['{"timestamp": 0}'], "line 1 has no field 'input_length'"),
        (
            ['{"timestamp": 0, "input_length": "5", "output_length": 1, "hash_ids": []}'],
            "line 1 has a field 'input_length' that is not a number from 1 to 1,000,000,000,000",
        ),
        (
            ['{"timestamp": -1, "input_length": 5, "output_length": 1, "hash_ids": []}'],
            "line 1 has a field 'timestamp' that is not a number from 0 to 1,000,000,000,000",
        ),
        (['{"timestamp": 0, "input_length": 5, "output_length": 1}'], "line 1 has no field 'hash_ids'"),
        (
            ['{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [-1]}'],
            "line 1 has a field 'hash_ids' with an id that is not a number below 2^32",
        ),
        (['{"requests": []}'], "line 1 has no field 'session'"),
        (['{"session": "a", "requests": []}'], "line 1 has a field 'requests' that is not a list of requests"),
        (['{"session": "a", "requests": [5]}'], "line 1 requests[0] is not an object"),
        (
            ['{"session": "a", "requests": [{"input_length": 5}]}'],
            "line 1 requests[0] has no field 'think_s'",
        ),
        (
            [
                '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": []}',
                '{"session": 1, "requests": []}',
            ],
            "line 2 has the field 'requests', and the first line has not",
        ),
    ],
)
def test_faults_name_the_line_and_the_field(lines: list[str], said: str) -> None:
    with pytest.raises(ValueError) as fault:
        parse_trace(lines, "it")

    assert f"it: {said}" == str(fault.value)
