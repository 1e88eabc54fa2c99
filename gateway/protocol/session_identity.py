"""Recognition of the session that a request belongs to, from the headers of common clients and from the body.

A request whose headers name different sessions is refused, because routing and the limits of sessions need one name.
Otherwise, the first name in this order counts:

1. the header that the settings of the model name, which is ``x-session-id`` by default
2. the headers in `gateway.protocol.headers.SESSION_HEADERS`, in their order
3. the field ``session_id`` of the body
4. the field ``prompt_cache_key`` of the body, or else the end user, but only for the strategy `BY_SESSION`, for routes
   and for traces. Many conversations can share these two. Other strategies recognize their conversations by the
   prompts, which is more exact.

The header ``x-client-request-id`` does not count, because some clients send a new one with each request.
"""

import re
from typing import Final

from gateway.protocol.errors import InvalidField
from gateway.protocol.headers import SESSION_HEADERS, SESSION_TOKEN_HEADER, HeaderLookup
from gateway.protocol.request_hints import name_digest, short_name

BY_SESSION: Final = "session"
"""Name of the strategy that sends all requests of a session to one worker."""

ENGINE_HEADER: Final = b"x-session-id"
"""Request header in which vLLM (since 0.28) reads the session of a request."""

_is_plain = re.compile(r"[!-~]{1,128}").fullmatch


def session_name(header: HeaderLookup, configured: bytes, in_body: str | None) -> str | None:
    """Return the name of the session as the caller gives it, or None if the request names no session.

    *configured* is the header that the model's settings name, and *in_body* is the session in the body. A name longer
    than `MAX_NAME_LENGTH` is replaced by its digest.

    Raises:
        InvalidField: if two headers name different sessions. *param* names the second one.
    """
    said, said_by = header(configured), configured
    for name in SESSION_HEADERS:
        other = header(name)
        if other:
            if said and other != said:
                first, second = said_by.decode("ascii"), name.decode("ascii")
                raise InvalidField(
                    f"The headers {first!r} and {second!r} name different sessions. Send only one of them, or the same "
                    f"name in both.",
                    param=second,
                )
            said, said_by = other, name
    if not said:
        token = header(SESSION_TOKEN_HEADER)
        said = in_body if token is None else name_digest(token)
    return short_name(said) if said else None


def scoped_session(name: str | None, team: str) -> str | None:
    """Return a session id for *name* that no session of another team has. *team* is empty without teams."""
    return f"{team}\0{name}" if name is not None and team else name


def unscoped_session(session: str | None, team: str) -> str | None:
    """Return the name from which `scoped_session` made *session*."""
    return session.removeprefix(f"{team}\0") if session is not None and team else session


def engine_session(session: str, team: str) -> bytes:
    """Return the value of `ENGINE_HEADER` for *session*, a result of `scoped_session`.

    A session of a team is replaced by a digest, so that no team can name a session of another team.
    """
    if team or not _is_plain(session):
        session = name_digest(session)
    return session.encode("ascii")
