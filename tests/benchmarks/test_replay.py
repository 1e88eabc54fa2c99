import dataclasses
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay import (
    SETTINGS,
    TRACES,
    Answer,
    ClosedLoop,
    OpenLoop,
    Recorded,
    Replay,
    Setting,
    Summary,
    boundless_hit_rate,
    highest_speed,
    main,
    parse_arguments,
    read_trace,
    settings_of,
)
from cache_index import Prefix
from routing.strategies import NAMES


def asked(at_ms: int, tokens: int, ids: Sequence[int], output: int = 1) -> dict[str, Any]:
    return {"timestamp": at_ms, "input_length": tokens, "output_length": output, "hash_ids": list(ids)}


def written(directory: Path, *lines: dict[str, Any]) -> Path:
    path = directory / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Prompts of two full blocks of 512 tokens and 76 tokens more; the third is the second again."""
    return written(
        tmp_path,
        asked(0, 1100, [1, 2, 3], output=21),
        asked(5_000, 1100, [1, 4, 5], output=0),
        asked(15_000, 1100, [1, 4, 5]),
    )


def recorded(number: int, *, session: str | None = None, wait_s: float = 0.0) -> Recorded:
    return Recorded(number, session, wait_s, 1000, 1, Prefix(b""), ())


def answers(setting: Setting, strategy: str = "prefix_aware", seed: int = 1) -> list[Answer]:
    return Replay(read_trace(setting.trace), setting, strategy, seed=seed).run()


class TestTraces:
    def test_the_last_id_is_a_partial_block(self, path: Path) -> None:
        """Two full blocks of 512 tokens, though there are three ids; an empty answer counts as one token."""
        trace = read_trace(path)

        assert 512 == trace.block_tokens
        assert not trace.is_closed_loop
        assert [(1, 2), (1, 4), (1, 4)] == [request.blocks for request in trace.requests]
        assert [2, 2, 2] == [request.prefix.blocks for request in trace.requests]
        assert [21, 1, 1] == [request.output_tokens for request in trace.requests]
        assert [0.0, 5.0, 15.0] == [request.wait_s for request in trace.requests]

    def test_equal_ids_make_equal_prefixes(self, path: Path) -> None:
        """The second and third prompt are the same, the first shares one block with them."""
        first, second, third = [request.prefix.hashes for request in read_trace(path).requests]

        assert second == third
        assert first[:8] == second[:8]
        assert first[8:] != second[8:]

    @pytest.mark.parametrize(
        ("name", "block_tokens", "count", "is_closed_loop"),
        [
            ("mooncake_conversation_6000.jsonl", 512, 6000, False),
            ("mooncake_synthetic_2000.jsonl", 512, 2000, False),
            ("ragpulse_3553_blk64.jsonl.gz", 64, 3553, False),
            ("agentic_248_sessions_blk1024.jsonl.gz", 1024, 8623, True),
        ],
    )
    def test_the_shipped_traces_are_read(self, name: str, block_tokens: int, count: int, is_closed_loop: bool) -> None:
        """The size of a block follows from lengths and ids."""
        trace = read_trace(TRACES / name)

        assert (block_tokens, is_closed_loop, count) == (trace.block_tokens, trace.is_closed_loop, len(trace.requests))

    def test_a_boundless_cache_holds_all_that_was_asked_before(self, path: Path) -> None:
        """One block of the second prompt, two of the third."""
        assert pytest.approx(3 * 512 / 3300) == boundless_hit_rate(read_trace(path))


class TestWorkloads:
    def test_a_higher_speed_brings_requests_closer(self, path: Path) -> None:
        """At twice the speed, requests of 0, 5 and 15 s come by 2.5 s apart and more, each in its bin of 5 s."""
        times = [at for at, _ in OpenLoop(read_trace(path).requests, random.Random(1), speed=2.0).begin()]

        assert 0.0 <= times[0] < 2.5 <= times[1] < 5.0
        assert 7.5 <= times[2] < 10.0

    def test_requests_of_one_bin_are_spread_in_order(self) -> None:
        """A hundred at 0 s and one at 3 s: the hundred fill the three seconds between, as they were recorded."""
        requests = [recorded(number) for number in range(100)] + [recorded(100, wait_s=3.0)]
        arrivals = list(OpenLoop(requests, random.Random(1), speed=1.0).begin())
        times = [at for at, _ in arrivals]

        assert list(range(101)) == [request.number for _, request in arrivals]
        assert times == sorted(times)
        assert times[0] < 0.3
        assert 2.7 < times[99] < 3.0

    def test_poisson_arrivals_come_at_their_rate(self) -> None:
        """A thousand requests at six per second take about 167 s, whenever they were recorded."""
        requests = [recorded(number) for number in range(1000)]
        *_, (last, _) = OpenLoop(requests, random.Random(1), speed=1.0, poisson_per_s=6.0).begin()

        assert pytest.approx(1000 / 6, rel=0.1) == last

    def test_an_open_loop_does_not_wait_for_answers(self) -> None:
        """Nothing follows from one."""
        assert OpenLoop([recorded(0)], random.Random(1), speed=1.0).answered(recorded(0), 1.0) is None

    def test_a_user_thinks_and_then_takes_the_next_session(self) -> None:
        """One user, two sessions: the pause inside a session is the recorded one, between sessions there is none."""
        requests = [
            recorded(0, session="a"),
            recorded(1, session="a", wait_s=8.0),
            recorded(2, session="b"),
        ]
        workload = ClosedLoop(requests, random.Random(1), users=1, speed=2.0)
        ((began, first),) = workload.begin()

        assert 0.0 <= began < 4.0
        assert 0 == first.number
        assert (14.0, requests[1]) == workload.answered(first, 10.0)
        assert (20.0, requests[2]) == workload.answered(requests[1], 20.0)
        assert workload.answered(requests[2], 30.0) is None


class TestReplay:
    def test_times_and_hits_are_the_engine_s(self, path: Path) -> None:
        """10 ms and 10,000 uncached tokens per second; the second prompt finds one block, the third two."""
        found = answers(Setting("", path, 1, 100))

        assert [0, 1, 2] == [answer.arrival for answer in found]
        assert [0, 512, 1024] == [answer.cached_tokens for answer in found]
        assert pytest.approx([0.12, 0.0688, 0.0176]) == [answer.ttft_s for answer in found]

    def test_ttft_counts_from_arrival(self, tmp_path: Path) -> None:
        """Two prompts at nearly the same moment: the second waits until the first has been computed."""
        path = written(tmp_path, asked(0, 10_000, range(20)), asked(1, 10_000, range(100, 120)))
        first, second = answers(Setting("", path, 1, 100))

        assert pytest.approx(1.01) == first.ttft_s
        assert pytest.approx(2.02, abs=0.003) == second.ttft_s

    def test_prefix_aware_asks_again_where_it_asked_before(self, path: Path) -> None:
        """The repeated prompt goes to the worker that computed it."""
        found = answers(Setting("", path, 4, 100))

        assert found[1].worker == found[2].worker
        assert 1024 == found[2].cached_tokens

    def test_round_robin_does_not(self, path: Path) -> None:
        """Three requests, three workers, no hit."""
        found = answers(Setting("", path, 4, 100), "round_robin")

        assert 3 == len({answer.worker for answer in found})
        assert 0 == sum(answer.cached_tokens for answer in found)

    @pytest.mark.parametrize("strategy", NAMES)
    def test_every_request_is_answered_once(self, strategy: str) -> None:
        """All strategies, at a load that no worker can bear."""
        setting = dataclasses.replace(SETTINGS[1], workers=2, speed=5.0)
        found = answers(setting, strategy)

        assert list(range(2000)) == sorted(answer.arrival for answer in found)
        assert all(answer.ttft_s > 0.01 for answer in found)

    def test_the_same_seed_gives_the_same_answers(self, tmp_path: Path) -> None:
        """A figure can be made again; another seed makes another."""
        path = written(tmp_path, *(asked(1000 * number, 1000, [number, 900 + number]) for number in range(50)))
        first, again, other = [answers(Setting("", path, 8, 100), seed=seed) for seed in (1, 1, 2)]

        assert first == again
        assert first != other

    def test_a_closed_loop_asks_every_request_of_every_session(self, tmp_path: Path) -> None:
        """Three sessions of two requests each for two users; the second of a session finds the first one's blocks."""
        path = written(
            tmp_path,
            *(
                {
                    "session": str(session),
                    "requests": [
                        {
                            "think_s": 9.0 * turn,
                            "input_length": 1024 * (turn + 2),
                            "output_length": 10,
                            "hash_ids": [100 * session + block for block in range(turn + 2)],
                        }
                        for turn in range(2)
                    ],
                }
                for session in range(3)
            ),
        )
        found = answers(Setting("", path, 2, 100, users=2))

        assert 6 == len(found)
        assert 3 * 2048 == sum(answer.cached_tokens for answer in found)


def test_the_first_tenth_is_not_counted() -> None:
    """Of ten requests the first to arrive, whenever it was answered."""
    summary = Summary.of([Answer(arrival, "w", float(arrival), 100, 10 * arrival) for arrival in reversed(range(10))])

    assert Summary(9, 0.5, 5.0, 5.0, 9.0, 9.0) == summary


@pytest.mark.parametrize("bearable", [0.5, 1.0, 2.37])
def test_the_highest_speed_is_found_to_a_step(bearable: float) -> None:
    """Whatever is below it can be borne, what is above cannot."""
    assert bearable - 0.02 <= highest_speed(lambda speed: speed <= bearable) <= bearable


def test_a_speed_without_limit_ends_the_search() -> None:
    """A trace too short to overload anything."""
    assert 64.0 == pytest.approx(highest_speed(lambda _: True), abs=0.02)


class TestCommand:
    def test_all_settings_are_run_unless_a_trace_is_named(self) -> None:
        """Four settings; a name without its endings will do, and options change what they name."""
        assert list(SETTINGS) == settings_of(parse_arguments([]))
        assert [SETTINGS[0]] == settings_of(parse_arguments(["--trace", "mooncake_conversation_6000"]))

        options = parse_arguments(["--trace", "mooncake_conversation_6000.jsonl", "--speed", "3", "--blocks", "2900"])

        assert [dataclasses.replace(SETTINGS[0], speed=3.0, blocks=2900)] == settings_of(options)

    def test_both_files_are_written(self, path: Path, tmp_path: Path) -> None:
        """A row for each strategy, and the speeds it was searched for."""
        arguments = ["--trace", str(path), "--workers", "2", "--seeds", "2", "--capacity-search"]
        main([*arguments, "--strategies", "prefix_aware,round_robin", "--results", str(tmp_path)])
        found = json.loads((tmp_path / "replay.json").read_text())
        compared, searched = found["tables"]

        assert ["prefix_aware", "round_robin"] == [row[0] for row in compared["rows"]]
        assert ["prefix_aware", "round_robin"] == [row[0] for row in searched["rows"]]
        assert 2 == len(found["figures"]["trace.jsonl"]["prefix_aware"])
        assert "| prefix_aware |" in (tmp_path / "replay.md").read_text()

    @pytest.mark.parametrize(
        ("lines", "options", "said"),
        [
            ([], [], "trace.jsonl is empty"),
            ([{"timestamp": 0, "input_length": 5}], [], "trace.jsonl: a line has no field 'hash_ids'"),
            ([asked(0, 1100, [1, 2, 3])], ["--blocks", "2"], "request 0 needs 3 blocks, the cache has 2"),
            ([asked(0, 1100, [1, 2, 3])], ["--speed", "0"], "speed must be above 0, not 0.0"),
            ([asked(0, 1100, [1, 2, 3])], ["--seeds", "0"], "seeds must be at least 1, not 0"),
        ],
    )
    def test_what_cannot_run_says_why(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        lines: list[dict[str, Any]],
        options: list[str],
        said: str,
    ) -> None:
        """Status 2, and the fault by name."""
        assert 2 == main(["--trace", str(written(tmp_path, *lines)), "--results", str(tmp_path), *options])
        assert f"replay: {said}\n" == capsys.readouterr().err

    def test_an_unknown_strategy_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        """With the names there are."""
        with pytest.raises(SystemExit):
            parse_arguments(["--strategies", "prefix_aware,best"])

        assert "no strategy 'best'; there are round_robin" in capsys.readouterr().err
