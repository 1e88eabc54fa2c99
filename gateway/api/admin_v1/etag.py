"""Entity tags of teams and keys, for changes that must apply only to the state that the caller has read."""

import hashlib
from typing import Annotated

import msgspec
from fastapi import Header

from gateway.protocol.errors import PreconditionFailed
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team

IfMatch = Annotated[
    str | None, Header(alias="if-match", description="required ETag of the resource; otherwise status 412 is returned")
]


def etag_of(entity: Team | Key) -> str:
    """Return the strong ETag of *entity*, which differs after every change, including a rotation of the secret."""
    return f'"{hashlib.sha256(msgspec.json.encode(entity)).hexdigest()[:32]}"'


def tagged(entity: Team | Key) -> dict[str, str]:
    """Return the ETag header for a response that shows *entity*."""
    return {"etag": etag_of(entity)}


def check_match(if_match: str | None, entity: Team | Key | None) -> None:
    """Raise an error unless *entity* matches one of the ETags in *if_match*. If *if_match* is None, accept it.

    Raises:
        PreconditionFailed: if no ETag matches, or the entity does not exist.
    """
    if if_match is None:
        return
    wanted = [tag.strip() for tag in if_match.split(",")]
    if entity is None or ("*" not in wanted and etag_of(entity) not in wanted):
        raise PreconditionFailed(
            "The resource has changed since it was read ('if-match'). Read the resource again and repeat the change",
            param="if-match",
        )
