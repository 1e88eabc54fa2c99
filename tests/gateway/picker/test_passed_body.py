"""A body that reaches a worker while it arrives."""

import pytest

from gateway.picker.passed_body import PassedBody

BODY = b' {"model":"tiny","messages":[]} \n'


def passed(*pieces: bytes) -> tuple[bytes, PassedBody]:
    """Return the bytes that were passed on after *pieces* have arrived, and the record of them."""
    body = PassedBody()
    return b"".join([body.take(piece) for piece in pieces]), body


def test_the_last_part_waits() -> None:
    """An end without bytes does not pass it on."""
    sent, body = passed(BODY[:5], BODY[5:9], BODY[9:], b"")

    assert (BODY[:9], BODY[9:]) == (sent, body.rest(BODY))


def test_nothing_is_passed_on_of_a_short_body() -> None:
    """The body can still change in any way."""
    sent, body = passed(BODY)

    assert (b"", b'{"other":1}') == (sent, body.rest(b'{"other":1}'))


@pytest.mark.parametrize("cut", [1, 2, 5, 20, len(BODY) - 3])
def test_new_members_move_to_the_end(cut: int) -> None:
    sent, body = passed(BODY[:cut], BODY[cut:])
    rest = body.rest(b' {"a":{"b":[1]},"c":2,"model":"tiny","messages":[]} \n')

    assert rest is not None
    assert sent + rest in {
        b' {"model":"tiny","messages":[],"a":{"b":[1]},"c":2}',
        b' {"a":{"b":[1]},"c":2,"model":"tiny","messages":[]} \n',
    }


def test_a_change_after_the_passed_bytes_is_possible() -> None:
    sent, body = passed(BODY[:20], BODY[20:])
    changed = BODY.replace(b"[]", b"[1]")

    assert changed == sent + (body.rest(changed) or b"")


@pytest.mark.parametrize(
    "changed",
    [
        BODY.replace(b"tiny", b"huge"),
        BODY.replace(b"tiny", b"t"),
        BODY.replace(b"{", b'{"a":1 '),
        BODY.replace(b"tiny", b"huge").replace(b"{", b'{"a":1,'),
        BODY.replace(b"{", b'{"a":1,').replace(b"[]", b"{}"),
        b"",
    ],
)
def test_other_changes_are_impossible(changed: bytes) -> None:
    _, body = passed(BODY[:20], BODY[20:])

    assert body.rest(changed) is None


def test_an_end_that_was_passed_on_takes_no_members() -> None:
    """White space after the object waits, and the object is complete."""
    _, body = passed(BODY[:-2], BODY[-2:])

    assert body.rest(BODY.replace(b"{", b'{"a":1,')) is None
    assert BODY[-2:] == body.rest(BODY)
