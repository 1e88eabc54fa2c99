"""A stream cut at every byte."""

import pytest

from gateway.protocol.errors import ContentBlocked, ReplyBroken
from gateway.proxy.guardrails import stream
from gateway.proxy.guardrails.chunks import Chunks
from gateway.proxy.guardrails.fields import ScannedFields
from gateway.proxy.guardrails.filter import Action, Text
from gateway.proxy.guardrails.stream import GuardedStream, KeptStream
from tests.fakes.speaker import chunk, chunks, said_in
from tests.gateway.proxy.guardrails.examples import CARD, MAIL, a_filter

WIRE = b": hello\n\n" + b"".join(
    chunks("Your card ", "4111 1", "111 1111", f" 1111 and {MAIL[:6]}", MAIL[6:], " é日本.")
)
CHANGED = "Your card [CARD] and [EMAIL] é日本."


def a_stream(action: Action = "redact") -> GuardedStream:
    def found(name: str, action: Action) -> None:
        if action == "block":
            raise ContentBlocked(name)

    return GuardedStream(Chunks(), ScannedFields([a_filter(action=action)], found))


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_nothing_leaks_at_any_cut(line_end: bytes) -> None:
    """What came out after any first part never holds the beginning of what is redacted, nor does all of it."""
    wire = WIRE.replace(b"\n", line_end)
    for place in range(0, len(wire) + 1, 1 if line_end == b"\n" else 7):
        guarded = a_stream()
        first = guarded.passed(wire[:place])
        whole = first + guarded.passed(wire[place:]) + guarded.finish()

        assert "4111" not in said_in(first.replace(b"\r", b"")), place
        assert "jane" not in said_in(first.replace(b"\r", b"")), place
        assert CHANGED == said_in(whole.replace(b"\r", b"")), place


def test_byte_by_byte_it_comes_out_the_same() -> None:
    once, by_bytes = a_stream(), a_stream()
    whole = once.passed(WIRE) + once.finish()

    assert whole == b"".join([by_bytes.passed(WIRE[at : at + 1]) for at in range(len(WIRE))]) + by_bytes.finish()
    assert whole.endswith(b"data: [DONE]\n\n")
    assert whole.startswith(b": hello\n\n")


def test_what_has_not_changed_comes_out_as_the_bytes_that_came() -> None:
    wire = b'data:  {"choices": [{"index":0, "delta":{"content":"so far. "},"x":1.50}]}\r\n\r\n'

    assert wire == a_stream().passed(wire)


def test_a_last_event_without_its_blank_line_is_looked_at() -> None:
    guarded = a_stream()

    assert "to [EMAIL]" == said_in(guarded.passed(chunk("to ")) + guarded.finish(chunk(MAIL).rstrip()))


def test_a_stream_that_broke_off_gives_nothing_of_what_waited() -> None:
    assert "4111" not in said_in(a_stream().passed(chunk(CARD[:-1])))


def test_data_that_is_no_json_is_looked_at_as_text() -> None:
    assert b"data: to [EMAIL]\n\n" == a_stream().passed(f"data: to {MAIL}\n\n".encode())
    assert b"data: fine\n\n" == a_stream().passed(b"data: fine\n\n")


def test_an_event_that_is_too_large_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LARGEST_EVENT_BYTES", 100)
    with pytest.raises(ReplyBroken):
        a_stream().passed(b"data: " + b"x" * 100)


def test_a_named_event_keeps_its_name() -> None:
    event = b'event: error\ndata: {"type":"error","message":"no ' + MAIL.encode() + b'"}\n\n'

    assert b'event: error\ndata: {"type":"error","message":"no [EMAIL]"}\n\n' == a_stream().passed(event)


def test_a_kept_stream_comes_as_it_was_or_with_other_texts() -> None:
    pieces = chunks("a ", "b ", "c")
    kept = KeptStream(Chunks())
    for piece in pieces:
        kept.keep(piece)

    assert [Text("a b c")] == kept.texts()
    assert b"".join(pieces) == kept.rewritten(Chunks(), None)
    changed = kept.rewritten(Chunks(), ("other",))
    assert "other" == said_in(changed)
    assert changed.endswith(b"data: [DONE]\n\n")


def test_a_stream_is_not_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LARGEST_KEPT_BYTES", 10)
    with pytest.raises(ReplyBroken):
        KeptStream(Chunks()).keep(chunk("a"))
