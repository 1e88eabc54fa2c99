from typing import Any

import pytest

from simulator.event_options import EventOptions


def test_the_defaults_are_those_of_vllm() -> None:
    """Its present wire format, no replay, one batch per step."""
    options = EventOptions()

    assert ("map", None, 4, 0, 0, 10_000) == (
        options.format,
        options.replay_port,
        options.replay_frames,
        options.first_sequence,
        options.batch_s,
        options.buffer_steps,
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"port": 70_000}, "kv_events.port must be 0 to 65535, got 70000"),
        ({"replay_port": -1}, "kv_events.replay_port must be 0 to 65535, got -1"),
        ({"dial": "here:1"}, "kv_events.dial must begin with tcp:// or ipc://, got here:1"),
        ({"batch_s": -1}, "kv_events.batch_s must be finite and not negative, got -1"),
        ({"batch_s": float("nan")}, "kv_events.batch_s must be finite and not negative, got nan"),
        ({"buffer_steps": 0}, "kv_events.buffer_steps must be at least 1, got 0"),
        ({"format": "x"}, "kv_events.format must be map or array, got x"),
        ({"hashes": "x"}, "kv_events.hashes must be int, bytes or signed, got x"),
        ({"replay_frames": 5}, "kv_events.replay_frames must be 4 or 3, got 5"),
        ({"first_sequence": 2}, "kv_events.first_sequence must be 0 or 1, got 2"),
    ],
)
def test_a_bad_option_is_named(wrong: dict[str, Any], message: str) -> None:
    """The error reports the option and the value."""
    with pytest.raises(ValueError, match=message):
        EventOptions(**wrong)
