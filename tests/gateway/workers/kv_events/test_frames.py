"""The frames that engines publish and replay."""

import math

import pytest

from gateway.workers.kv_events.frames import (
    BatchMessage,
    Marker,
    read_live,
    read_replayed,
    replay_request,
    timestamp_of,
)
from tests.gateway.workers.kv_events.examples import batch
from tests.gateway.workers.kv_events.recorded import KINDS, frames

SEVEN = (7).to_bytes(8, "big")
END = b"\xff" * 8
PAYLOAD = batch(ts=12.5)


def test_a_published_batch() -> None:
    """Topic, sequence, payload; the time stands in front of the payload."""
    assert BatchMessage(7, PAYLOAD, 12.5, b"kv@a@tiny") == read_live([b"kv@a@tiny", SEVEN, PAYLOAD])


def test_a_replayed_batch_with_and_without_topic() -> None:
    """Since vLLM 0.26 there is one."""
    assert BatchMessage(7, PAYLOAD, 12.5, b"kv@a@tiny") == read_replayed([b"", b"kv@a@tiny", SEVEN, PAYLOAD])
    assert BatchMessage(7, PAYLOAD, 12.5, None) == read_replayed([b"", SEVEN, PAYLOAD])


def test_the_end_of_a_replay() -> None:
    """A sequence of -1, in as many frames as the rest."""
    assert Marker.END is read_replayed([b"", b"", END, b""])
    assert Marker.END is read_replayed([b"", END, b""])


@pytest.mark.parametrize(
    "malformed",
    [[], [b""], [b"", SEVEN], [b"x", SEVEN, PAYLOAD], [b"", b"short", PAYLOAD], [b"", b"", SEVEN, b"", b""]],
)
def test_what_is_no_answer(malformed: list[bytes]) -> None:
    """It is distinguished, and nothing is raised."""
    assert Marker.MALFORMED is read_replayed(malformed)


@pytest.mark.parametrize("malformed", [[], [b"", SEVEN], [b"", b"short", PAYLOAD], [b"", END, PAYLOAD]])
def test_what_is_no_publication(malformed: list[bytes]) -> None:
    """It is distinguished, and nothing is raised."""
    assert read_live(malformed) is None


def test_what_is_asked() -> None:
    """A DEALER has to send the empty frame that a REQ would."""
    assert [b"", b"\0\0\0\0\0\0\1\0"] == replay_request(256)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x93", b"\x93\xca\x00\x00\x00\x00\x90\xc0\xc0\xc0", batch(ts=math.nan), batch(ts=math.inf), b"x" * 40],
)
def test_a_time_that_is_not_there(payload: bytes) -> None:
    """It is not known then; zero would be a time."""
    assert timestamp_of(payload) is None


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_a_real_engine(kind: str) -> None:
    """vLLM 0.32: what was published comes again as a replay, with its topic, and then the end."""
    published = [read_live(message) for message in frames(kind, "published")]
    replayed = [read_replayed(message) for message in frames(kind, "replayed")]

    assert [0, 1, 2, 3, 4, 5] == [message.seq for message in published if message is not None]
    assert [*published, Marker.END] == replayed
    assert {b"kv@engine@tiny"} == {message.topic for message in published if message is not None}
