"""What the process that decodes bodies makes of them."""

import socket

import msgspec
import pytest

from benchmarks.hostile_shapes import SHAPES
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import ClientError, InvalidField, MalformedBody
from gateway.proxy.bodies import answer as messages
from gateway.proxy.bodies.answer import ACTING_TEXTS, PLACES, REDACTED, TEXTS
from gateway.proxy.bodies.child import answer_to, serve
from gateway.proxy.guardrails.reading import MAX_TEXTS, texts_of


def test_the_process_answers_until_its_line_ends() -> None:
    """It answers in order, and then returns."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for raw in (b'{"model":"a","prompt":"x"}', b"{"):
            messages.send_question(ours, b"/v1/completions", b"", raw, max_values=10)
        ours.shutdown(socket.SHUT_WR)
        serve(theirs, cpu_s=None)
        answers = [messages.read_answer(ours) for _ in range(2)]

    assert [False, True] == [bool(answer is not None and answer.kind) for answer in answers]


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_hostile_bodies_are_read_as_the_endpoint_reads_them(name: str) -> None:
    """They are parsed or refused; nothing else happens."""
    shape = SHAPES[name]
    raw = shape.make(60_000)
    answer = answer_to(shape.path.encode(), shape.media.encode(), raw, max_values=10_000)
    if answer.kind:
        with pytest.raises(ClientError, match=r".+"):
            answer.to_body()
        return
    body = answer.to_body()
    assert body is not None
    assert ENDPOINTS[shape.path].parse(raw, shape.media.encode()) == body.changed(places=None)


def test_only_positions_of_fields_can_be_asked_for() -> None:
    """The shape of the body was checked when it arrived."""
    answer = answer_to(PLACES, b"", b'{"a": 1, "b": [2]}', max_values=1)

    assert (None, (("a", 6, 7), ("b", 14, 17))) == (answer.body, answer.places)


def test_texts_for_guardrails_are_read_and_changed() -> None:
    """The result is the same as on the event loop; parts of one message stay together."""
    raw = msgspec.json.encode({"a": 1.50, "messages": [{"content": [{"text": "x"}, {"text": "y"}]}], "tools": ["z"]})
    texts = answer_to(TEXTS, b"", raw, max_values=1).to_texts()

    assert texts_of(raw, acts=False) == texts
    assert [("x", 1), ("y", 1), ("z", 0)] == [(text.said, text.group) for text in texts]
    redacted = answer_to(REDACTED, msgspec.msgpack.encode(["x", "Y", "z"]), raw, max_values=1).to_redacted()
    assert raw.replace(b'"y"', b'"Y"') == redacted


def test_a_body_that_guardrails_cannot_read_is_refused() -> None:
    tokens = b'{"prompt_token_ids":[1,2]}'
    with pytest.raises(InvalidField, match="token ids") as refusal:
        answer_to(ACTING_TEXTS, b"", tokens, max_values=1).to_texts()

    assert "prompt_token_ids" == refusal.value.param
    assert [] == answer_to(TEXTS, b"", tokens, max_values=1).to_texts()


def test_a_guarded_body_has_a_bounded_number_of_texts() -> None:
    """Guardrails that only log skip the texts beyond the bound."""
    raw = msgspec.json.encode({"tools": ["x"] * (MAX_TEXTS + 1)})
    with pytest.raises(MalformedBody, match="more than 20000 texts"):
        answer_to(ACTING_TEXTS, b"", raw, max_values=1).to_texts()

    assert MAX_TEXTS == len(answer_to(TEXTS, b"", raw, max_values=1).to_texts())


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        (b'"stream_options":{"x":"%b"}' % (b"y" * 70_000), "'stream_options' is longer than 65536 bytes"),
        (b",".join(b'"k%d":1' % number for number in range(300)), "more than 256 fields"),
    ],
    ids=["options", "fields"],
)
def test_a_body_with_too_many_fields_is_refused(field: bytes, fault: str) -> None:
    """The gateway edits the fields of a large body by their positions alone."""
    raw = b'{"model":"tiny","prompt":"a",%b}' % field
    answer = answer_to(b"/v1/completions", b"", raw, max_values=1_000)

    assert fault in answer.message


def test_a_body_that_takes_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process goes on."""

    def check_bounds(raw: bytes, *, max_values: int) -> None:
        raise MemoryError

    monkeypatch.setattr("gateway.proxy.bodies.child.check_bounds", check_bounds)

    assert "too much memory" in answer_to(b"/v1/completions", b"", b"{}", max_values=1).message
