"""The ways in which another worker can go on with a stream."""

import msgspec
import pytest

from gateway.proxy.continuation.resumption import Resumption, Way
from gateway.proxy.continuation.transcript import Transcript
from tests.gateway.examples import a_call

BODY = b'{"model":"tiny","prompt":"Once","min_tokens":3,"max_tokens":8}'


def resumption(*, by_tokens: bool = True, by_text: bool = True, max_tokens: int | None = 8) -> Resumption:
    fields = msgspec.json.decode(BODY, type=dict[str, msgspec.Raw])
    return Resumption(
        a_call().changed(body=BODY), fields, max_tokens=max_tokens, may_by_tokens=by_tokens, may_by_text=by_text
    )


def transcript(*ids: int, prompt: list[int] | None = None) -> Transcript:
    kept = Transcript(keeps_text=True)
    if prompt:
        kept.begin(prompt)
    kept.add(ids, "text", says=True)
    kept.settle()
    return kept


def test_before_any_content_the_request_begins_again() -> None:
    """An answer whose reasoning the caller has seen cannot begin again."""
    ways = [resumption().way(transcript(), has_content=False, has_reasoned=seen) for seen in (False, True)]

    assert [Way.AS_ASKED, None] == ways


@pytest.mark.parametrize(
    ("by_tokens", "by_text", "prompt", "expected"),
    [
        (True, True, [1, 2], Way.TOKENS),
        (True, True, None, Way.TEXT),
        (False, True, [1, 2], Way.TEXT),
        (True, False, None, None),
    ],
)
def test_tokens_come_before_text(
    by_tokens: bool, by_text: bool, prompt: list[int] | None, expected: Way | None
) -> None:
    """Tokens need the ids of the prompt."""
    way = resumption(by_tokens=by_tokens, by_text=by_text).way(
        transcript(7, prompt=prompt), has_content=True, has_reasoned=False
    )

    assert expected is way


def test_an_answer_with_all_its_tokens_does_not_go_on() -> None:
    """Without a limit every answer may go on."""
    kept = transcript(*range(8), prompt=[1])
    limited, unlimited = resumption(), resumption(max_tokens=None)

    assert (True, None) == (limited.is_full(kept), limited.way(kept, has_content=True, has_reasoned=False))
    assert (False, Way.TOKENS) == (unlimited.is_full(kept), unlimited.way(kept, has_content=True, has_reasoned=False))


def test_the_call_asks_for_the_tokens_that_are_left() -> None:
    """The settled tokens count against both limits."""
    call = resumption().next_call(Way.TOKENS, transcript(7, 8, prompt=[1, 2]))
    assert call is not None
    body = msgspec.json.decode(call.body)

    assert ([1, 2, 7, 8], 6, 1) == (body["prompt"], body["max_tokens"], body["min_tokens"])


def test_the_body_is_dropped_unless_text_needs_it() -> None:
    """A long prompt must not stay in memory as long as its stream."""
    with_text, without_text = resumption(), resumption(by_text=False)
    with_text.forget_body()
    without_text.forget_body()

    assert (BODY, b"") == (with_text.call.body, without_text.call.body)
