"""Recognition of sessions, and their ids for routing and for engines."""

import pytest

from gateway.protocol.errors import InvalidField
from gateway.protocol.headers import SESSION_HEADERS, SESSION_TOKEN_HEADER
from gateway.protocol.session_identity import engine_session, scoped_session, session_name, unscoped_session

CONFIGURED = b"x-conversation"
EVERY = [CONFIGURED, *SESSION_HEADERS]


@pytest.mark.parametrize("header", EVERY)
def test_each_session_header_names_the_session(header: bytes) -> None:
    assert "s-1" == session_name({header: "s-1"}.get, CONFIGURED, "in the body")


@pytest.mark.parametrize("place", range(1, len(EVERY)))
def test_headers_that_name_different_sessions_are_refused(place: int) -> None:
    """The message names both headers."""
    headers = {EVERY[place - 1]: "s-1", EVERY[place]: "s-2"}
    with pytest.raises(InvalidField) as refused:
        session_name(headers.get, CONFIGURED, None)

    one, two = EVERY[place - 1].decode(), EVERY[place].decode()
    assert refused.value.param == two
    assert (
        f"The headers '{one}' and '{two}' name different sessions. Send only one of them, or the same name in both."
    ) == refused.value.message


def test_several_headers_may_name_the_same_session() -> None:
    assert "s-1" == session_name(dict.fromkeys(EVERY, "s-1").get, CONFIGURED, "in the body")


def test_empty_headers_name_no_session() -> None:
    headers = {CONFIGURED: "", b"session-id": "s-1", b"session_id": ""}

    assert "s-1" == session_name(headers.get, CONFIGURED, None)
    assert "body" == session_name({CONFIGURED: ""}.get, CONFIGURED, "body")


def test_headers_come_before_the_body() -> None:
    nothing = dict[bytes, str]().get

    assert ["body", None, None] == [session_name(nothing, CONFIGURED, said) for said in ("body", "", None)]


def test_a_client_request_id_is_not_a_session() -> None:
    """Some clients send a new one with each request."""
    assert session_name({b"x-client-request-id": "r-1"}.get, CONFIGURED, None) is None


def test_of_a_session_token_only_the_digest_is_used() -> None:
    """The header may contain a credential of another system. Every other header comes first."""
    token = {SESSION_TOKEN_HEADER: "ory_st_secret"}
    named = session_name(token.get, CONFIGURED, "body")

    assert "blake2b:4081d00d486cc182af046cd8d21d0053" == named
    assert "s-1" == session_name({**token, b"session_id": "s-1"}.get, CONFIGURED, None)


def test_a_long_name_becomes_a_digest_and_long_names_stay_apart() -> None:
    names = [session_name({CONFIGURED: "x" * 5000 + end}.get, CONFIGURED, None) for end in "aba"]

    assert names[0] == names[2] != names[1]
    assert {40} == {len(name or "") for name in names}


def test_sessions_of_teams_never_have_the_same_id() -> None:
    """Whatever the teams call them; without teams a name is its own id."""
    ids = [scoped_session(name, team) for team in ("blue", "green") for name in ("s-1", "s-2")]

    assert 4 == len(set(ids))
    assert "s-1" == scoped_session("s-1", "")
    assert scoped_session(None, "blue") is None


@pytest.mark.parametrize("team", ["", "blue"])
@pytest.mark.parametrize("name", ["s-1", "a\0b", "blue", None])
def test_the_name_can_be_read_back_from_an_id(name: str | None, team: str) -> None:
    assert name == unscoped_session(scoped_session(name, team), team)


def test_engines_see_the_name_of_a_session_only_without_teams() -> None:
    """A team cannot choose the id that the engine sees, so it cannot choose that of another team's session."""
    blue = engine_session("blue\0s-1", "blue")

    assert b"s-1" == engine_session("s-1", "")
    assert b"blake2b:" == blue[:8]
    assert blue != engine_session("green\0s-1", "green")
    assert blue == engine_session("blue\0s-1", "blue")


@pytest.mark.parametrize("name", ["two words", "café", "a\r\nx-evil: 1", "x" * 129, "\ud800"])
def test_a_name_that_is_no_plain_header_value_reaches_engines_as_a_digest(name: str) -> None:
    sent = engine_session(name, "")

    assert sent.startswith(b"blake2b:")
    assert 40 == len(sent)
