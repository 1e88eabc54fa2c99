from simulator.sse import DONE, Event, Spelling, SseEncoder


def test_an_event() -> None:
    """Compact JSON between `data: ` and an empty line."""
    assert b'data: {"a":"\xc3\xa9"}\n\n' == SseEncoder(Spelling()).encode([Event({"a": "é"})])


def test_a_named_event() -> None:
    """The name comes first."""
    assert b"event: ping\ndata: {}\n\n" == SseEncoder(Spelling()).encode([Event({}, name="ping")])


def test_the_end_mark() -> None:
    """It is no JSON."""
    assert b"data: [DONE]\n\n" == SseEncoder(Spelling()).encode([DONE])


def test_other_line_ends() -> None:
    """All of them change, that of the empty line too."""
    got = SseEncoder(Spelling(line_end="crlf")).encode([Event({}, name="ping"), DONE])

    assert b"event: ping\r\ndata: {}\r\n\r\ndata: [DONE]\r\n\r\n" == got


def test_comments_between_events() -> None:
    """After every second event, however the events are handed in."""
    encoder = SseEncoder(Spelling(comment_every=2))
    got = encoder.encode([Event({})]) + encoder.encode([Event({}), DONE])

    assert b"data: {}\n\ndata: {}\n\n: keep-alive\n\ndata: [DONE]\n\n" == got
