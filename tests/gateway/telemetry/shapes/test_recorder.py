import random
from pathlib import Path

from gateway.protocol.usage import Usage
from gateway.telemetry.shapes.layout import SUFFIX
from gateway.telemetry.shapes.reader import read_shapes
from tests.gateway.telemetry.shapes.examples import UNIX_S, Times, completed, recorded, recorder


def test_a_shape_says_when_how_much_and_where(tmp_path: Path) -> None:
    """An answered request of 128 tokens, half of which came out of a cache."""
    (shape,) = recorded(tmp_path, completed("abcdefgh", 3.0, usage=Usage(128, 40, 64)))

    assert UNIX_S + 3.0 == shape.at
    assert ("blue", "tiny", "prefix_aware", "w0") == (shape.team, shape.model, shape.strategy, shape.worker)
    assert (128, 64, 40, 512) == (shape.prompt_tokens, shape.cached_tokens, shape.output_tokens, shape.prompt_bytes)
    assert (0.5, 2.0, True) == (shape.ttft_s, shape.duration_s, shape.streams)
    assert (0, 256, 2) == (shape.tokens_per_step, shape.bytes_per_step, shape.steps.count)


def test_exact_tokens_are_preferred(tmp_path: Path) -> None:
    """Four blocks of 16 tokens are one step."""
    (shape,) = recorded(tmp_path, completed("abcdefgh", 3.0, exact_tokens=16))

    assert (64, 0, 2) == (shape.tokens_per_step, shape.bytes_per_step, shape.steps.count)


def test_failed_and_rejected_requests_are_left_out(tmp_path: Path) -> None:
    """A failure, and a request that was rejected before it was hashed."""
    failed, rejected = completed("abcd", 1.0), completed("abcd", 1.0)
    failed.exchange.error = "UpstreamFailed"
    rejected.exchange.request = None

    assert [] == recorded(tmp_path, failed, rejected)


def test_an_engine_that_reports_nothing_is_estimated(tmp_path: Path) -> None:
    """Tokens from the bytes of the prompt, and from the events of the stream."""
    silent = completed("abcd", 1.0)
    silent.exchange.usage = None
    silent.exchange.streamed_events = 7
    (shape,) = recorded(tmp_path, silent)

    assert (64, None, 7) == (shape.prompt_tokens, shape.cached_tokens, shape.output_tokens)


def test_files_hold_neither_text_nor_hashes_nor_session_names(tmp_path: Path) -> None:
    """Only names of the configuration, and numbers."""
    request = completed("abcd", 1.0, session="session-of-alice")
    recorded(tmp_path, request)
    assert request.exchange.request is not None
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    data = path.read_bytes()

    assert b"alice" not in data
    assert request.exchange.request.prefix.hashes[:8] not in data
    assert 0o600 == path.stat().st_mode & 0o777


def test_records_wait_until_they_are_written_together(tmp_path: Path) -> None:
    """A second long, or until someone reads."""
    times = Times()
    one = recorder(tmp_path, times)
    one.observe([completed("abcd", 0.0)])
    waiting = len(read_shapes(tmp_path))
    times.now = 1.0
    one.observe([completed("abcd", 1.0)])
    written = len(read_shapes(tmp_path))
    one.observe([completed("abcd", 1.0)])
    one.write()

    found = len(read_shapes(tmp_path))
    one.close()

    assert (0, 2, 3) == (waiting, written, found)


def test_a_long_session_takes_as_much_room_as_its_new_blocks(tmp_path: Path) -> None:
    """A hundred turns of up to 800 blocks: 65 bytes each, in one frame."""
    text = "".join(chr(0x100 + number) for number in range(800))
    times = Times()
    one = recorder(tmp_path, times)
    one.observe([completed(text[: 8 * (turn + 1)], float(turn)) for turn in range(100)])
    one.close()
    (path,) = tmp_path.glob(f"*{SUFFIX}")

    assert path.stat().st_size < 100 * 65 + 250


def test_names_are_known_in_every_file(tmp_path: Path) -> None:
    """Files of a few records: each begins with its own names, and prefixes go on over their ends."""
    rng = random.Random(1)
    times = Times()
    one = recorder(tmp_path, times, max_bytes=8 * 1000)
    expected = []
    for number in range(60):
        times.now = 2.0 * number
        worker, team = f"w{rng.randrange(5)}", rng.choice(["blue", "red"])
        one.observe([completed("abcdefgh"[: 4 * rng.randrange(1, 3)], times.now, worker=worker, team=team)])
        expected.append((UNIX_S + times.now, team, worker))
    one.close()
    shapes = read_shapes(tmp_path)

    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) > 3
    assert expected[-len(shapes) :] == [(shape.at, shape.team, shape.worker) for shape in shapes]
    assert 1 == len({shape.steps.spans()[0] for shape in shapes})
