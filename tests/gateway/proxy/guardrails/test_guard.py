import json

import msgspec
import pytest

from gateway.protocol.endpoints.multipart import parts_of
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import ContentBlocked, GuardrailUnavailable, InvalidField, MalformedBody, ReplyBroken
from gateway.proxy.attempt import Attempt
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, Verdict
from gateway.proxy.guardrails.guard import GuardrailRule
from tests.fakes.backends import ScriptedReply
from tests.fakes.speaker import chunk, chunks, events_of, said_in
from tests.gateway.proxy.guardrails.examples import BOTH, CARD, MAIL, Says, a_filter, a_guard, a_rule


def a_body(text: str, more: bytes = b"") -> bytes:
    return b'{"model":"tiny", "n" : 1.0e0,"messages":[{"role":"user","content":"%b"}]%b}' % (text.encode(), more)


def an_attempt(body: bytes, *, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None) -> Attempt:
    changed = headers or [(b"content-type", b"application/json"), (b"etag", b"1")]
    return Attempt(ScriptedReply(status, [], ()), status, changed, body, None, None)


# ---- requests


async def test_only_the_changed_value_is_rewritten() -> None:
    guard, exchange = a_guard(a_rule(a_filter()))
    changed = await guard.request(a_body(f"to {MAIL}"))

    assert b'{"model":"tiny", "n" : 1.0e0,"messages":[{"role":"user","content":"to [EMAIL]"}]}' == changed
    assert ("pii:request:redact",) == exchange.guardrails


async def test_a_request_in_which_nothing_is_found_is_the_very_same() -> None:
    guard, exchange = a_guard(a_rule(a_filter()))
    raw = a_body("nothing")

    assert await guard.request(raw) is raw
    assert () == exchange.guardrails


async def test_a_request_that_is_blocked_names_the_guardrail_and_nothing_else() -> None:
    guard, exchange = a_guard(a_rule(a_filter(action="block")))
    with pytest.raises(ContentBlocked) as blocked:
        await guard.request(a_body(CARD))

    assert "pii" == blocked.value.guardrail
    assert "4111" not in str(blocked.value)
    assert ("pii:request:block",) == exchange.guardrails


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": [1, 2]}, "prompt"),
        ("/v1/completions", {"prompt": [[1, 2]]}, "prompt"),
        ("/v1/completions", {"prompt_embeds": "abc"}, "prompt_embeds"),
        ("/v1/embeddings", {"input": [[1]]}, "input"),
        ("/detokenize", {"tokens": [1]}, "tokens"),
    ],
)
async def test_content_that_cannot_be_checked_is_refused(path: str, body: dict[str, object], param: str) -> None:
    guard, _ = a_guard(a_rule(a_filter()), endpoint=ENDPOINTS[path])
    with pytest.raises(InvalidField) as refused:
        await guard.request(json.dumps({"model": "tiny", **body}).encode())

    assert param == refused.value.param
    logs, _ = a_guard(a_rule(a_filter(action="log")), endpoint=ENDPOINTS[path])
    await logs.request(json.dumps({"model": "tiny", **body}).encode())


async def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    guard, _ = a_guard(a_rule(a_filter()))
    with pytest.raises(MalformedBody, match="nested too deeply"):
        await guard.request(b'{"tools":' + b"[" * 700 + b'"x"' + b"]" * 700 + b"}")
    with pytest.raises(ReplyBroken, match="nested too deeply"):
        await guard.answer(an_attempt(b"[" * 700 + b'"x"' + b"]" * 700))
    guard.passed(b"data: " + b'{"a":' * 700 + b'"x"' + b"}" * 700 + b"\n\n")

    assert isinstance(guard.blocked, ReplyBroken)


async def test_guardrails_look_in_only_the_directions_that_they_have() -> None:
    guard, _ = a_guard(a_rule(a_filter(), directions=frozenset({"response"})))
    raw = a_body(MAIL)

    assert await guard.request(raw) is raw


async def test_each_guardrail_sees_what_those_before_it_have_left() -> None:
    judge = Says(Verdict("redact", ("other",)))
    guard, exchange = a_guard(a_rule(a_filter()), GuardrailRule(judge, "redact", BOTH))
    changed = await guard.request(a_body(MAIL))

    assert ["[EMAIL]"] == [text.said for text in judge.asked[0].texts]
    assert b'"other"' in changed
    assert ("pii:request:redact", "judge:request:redact") == exchange.guardrails


async def test_the_fields_of_a_form_are_texts() -> None:
    """All fields except files; known places give the same texts."""
    guard, exchange = a_guard(a_rule(a_filter()), endpoint=ENDPOINTS["/v1/audio/transcriptions"])
    head = b"--x\r\nContent-Disposition: form-data; name="
    file = head + b'"file"; filename="a"\r\n\r\n' + MAIL.encode() + b"\r\n"
    raw = file + head + b'"prompt"\r\n\r\nto ' + MAIL.encode() + b" now\r\n--x--"
    media = b"multipart/form-data; boundary=x"
    places = tuple([(part.name, part.start, part.end) for part in parts_of(raw, media)])
    changed = file + head + b'"prompt"\r\n\r\nto [EMAIL] now\r\n--x--'

    assert changed == await guard.request(raw, media)
    assert changed == await guard.request(raw, media, places=places)
    assert changed is await guard.request(changed, media)
    assert ("pii:request:redact",) == exchange.guardrails


@pytest.mark.parametrize("fails_open", [False, True])
async def test_who_is_away_lets_pass_or_not(fails_open: bool) -> None:
    counters = GuardrailCounters()
    guard, exchange = a_guard(
        GuardrailRule(Says(GuardrailUnavailable("away")), "redact", BOTH, fails_open=fails_open), counters=counters
    )
    raw = a_body("x")
    if fails_open:
        assert await guard.request(raw) is raw
    else:
        with pytest.raises(GuardrailUnavailable):
            await guard.request(raw)

    assert () == exchange.guardrails
    assert {"judge": 1} == dict(counters._failures)


# ---- whole answers


async def test_an_answer_is_redacted_with_its_headers() -> None:
    guard, exchange = a_guard(a_rule(a_filter()))
    attempt = an_attempt(b'{"choices":[{"message":{"content":"to %b"},"logprobs":{"x":1}}]}' % MAIL.encode())
    await guard.answer(attempt)

    assert {"choices": [{"message": {"content": "to [EMAIL]"}, "logprobs": None}]} == json.loads(attempt.first)
    assert [(b"content-type", b"application/json")] == attempt.headers
    assert ("pii:response:redact",) == exchange.guardrails


async def test_an_answer_in_which_nothing_has_changed_is_the_very_same() -> None:
    guard, _ = a_guard(a_rule(a_filter()))
    body = b'{"choices": [], "x" : 1e9}'
    attempt = an_attempt(body)
    await guard.answer(attempt)

    assert attempt.first is body


async def test_an_answer_that_is_no_json_is_text() -> None:
    guard, _ = a_guard(a_rule(a_filter()))
    attempt = an_attempt(f"to {MAIL}".encode(), headers=[(b"content-type", b"text/plain")])
    await guard.answer(attempt)

    assert (b"to [EMAIL]", [(b"content-type", b"text/plain")]) == (attempt.first, attempt.headers)


async def test_tokens_stay_where_nothing_acts() -> None:
    guard, exchange = a_guard(a_rule(a_filter(action="log")))
    body = b'{"logprobs":[1],"text":"%b"}' % MAIL.encode()
    attempt = an_attempt(body)
    await guard.answer(attempt)

    assert attempt.first is body
    assert ("pii:response:log",) == exchange.guardrails


async def test_a_compressed_answer_cannot_be_looked_at() -> None:
    guard, _ = a_guard(a_rule(a_filter()))
    with pytest.raises(ReplyBroken):
        await guard.answer(an_attempt(b"x", headers=[(b"content-encoding", b"gzip")]))


async def test_numbers_are_not_read() -> None:
    """An answer of embeddings is long, and says nothing."""
    guard, _ = a_guard(a_rule(a_filter()), endpoint=ENDPOINTS["/v1/embeddings"])
    attempt = an_attempt(b"not even json " + MAIL.encode())
    await guard.answer(attempt)

    assert attempt.first.endswith(MAIL.encode())


async def test_a_fallback_on_bedrock_applies_its_guardrail_itself() -> None:
    judge = Says(BLOCK)
    native = GuardrailRule(judge, "redact", BOTH, is_native=True)
    guard, _ = a_guard(native, native=("g", "1"), fell_back=True, served_by="bedrock")
    await guard.answer(an_attempt(b'{"x":"y"}'))

    assert ("g", "1") == guard.native
    assert [] == judge.asked
    other, _ = a_guard(native, native=("g", "1"), fell_back=True, served_by="openai")
    with pytest.raises(ContentBlocked):
        await other.answer(an_attempt(b'{"x":"y"}'))


# ---- streams


async def test_a_stream_is_redacted_as_it_goes_by() -> None:
    guard, exchange = a_guard(a_rule(a_filter()))
    out = b"".join([guard.passed(piece) for piece in chunks("to ", *MAIL)]) + await guard.finish(b"")

    assert "to [EMAIL]" == said_in(out)
    assert guard.blocked is None
    assert ("pii:response:redact",) == exchange.guardrails


async def test_a_stream_that_is_blocked_says_nothing_more() -> None:
    guard, _ = a_guard(a_rule(a_filter(action="block")))
    out = guard.passed(chunk("to "))
    out += guard.passed(chunk(MAIL + " "))
    assert isinstance(guard.blocked, ContentBlocked)

    assert b"" == guard.passed(chunk("more")) + await guard.finish(chunk("more"))
    assert "to " == said_in(out)
    assert out.startswith(chunk("to "))
    assert "content_filter" == events_of(out)[-1]["choices"][0]["finish_reason"]


async def test_who_has_to_see_it_whole_makes_a_stream_wait() -> None:
    judge = Says(Verdict("redact", ("other",)))
    guard, _ = a_guard(a_rule(a_filter()), GuardrailRule(judge, "redact", BOTH))

    assert b"" == b"".join([guard.passed(piece) for piece in chunks("to ", MAIL)])
    assert "other" == said_in(await guard.finish(b""))
    assert ["to [EMAIL]"] == [text.said for text in judge.asked[0].texts]


@pytest.mark.parametrize(
    ("verdict", "says"), [(PASS, "a b"), (LOG, "a b"), (BLOCK, ""), (GuardrailUnavailable("away"), "")]
)
async def test_a_stream_that_waited_comes_as_it_was_or_not_at_all(verdict: Verdict | Exception, says: str) -> None:
    guard, _ = a_guard(GuardrailRule(Says(verdict), "redact", BOTH))
    out = b"".join([guard.passed(piece) for piece in chunks("a ", "b")]) + await guard.finish(b"")

    assert says == said_in(out) if says else "a b" not in out.decode()
    assert (guard.blocked is None) == bool(says)


async def test_a_stream_of_another_api_ends_with_its_error() -> None:
    guard, _ = a_guard(a_rule(a_filter(action="block")), endpoint=ENDPOINTS["/v1/messages"])
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": MAIL + " "}}
    out = guard.passed(b"event: content_block_delta\ndata: " + msgspec.json.encode(delta) + b"\n\n")

    assert MAIL.encode() not in out
    assert "error" == events_of(out)[-1]["type"]
