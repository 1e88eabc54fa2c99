"""Entity tags of teams and keys: a change can be made to depend on nobody else having changed the same before."""

import hashlib
from typing import Annotated

import msgspec
from fastapi import Header

from gateway.errors import PreconditionFailed
from gateway.teams.key import Key
from gateway.teams.team import Team

IfMatch = Annotated[str | None, Header(alias="if-match", description="ETag that it must still have; 412 otherwise")]


def etag_of(entity: Team | Key) -> str:
    """Return the strong tag of *entity*: another one after each change, a rotation too."""
    return f'"{hashlib.sha256(msgspec.json.encode(entity)).hexdigest()[:32]}"'


def tagged(entity: Team | Key) -> dict[str, str]:
    """Return the header of an answer that shows *entity*."""
    return {"etag": etag_of(entity)}


def check_match(if_match: str | None, entity: Team | Key | None) -> None:
    """Check that *entity* is one of those that *if_match* names; None: any will do.

    Raises:
        PreconditionFailed: it is not, or there is none.
    """
    if if_match is None:
        return
    wanted = [tag.strip() for tag in if_match.split(",")]
    if entity is None or ("*" not in wanted and etag_of(entity) not in wanted):
        raise PreconditionFailed("It is not as 'if-match' says: read it again and decide anew", param="if-match")
