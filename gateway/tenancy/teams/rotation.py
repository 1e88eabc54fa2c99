"""Rotation of an API key's secret. Former secrets stay valid for a grace period."""

from msgspec.structs import replace

from gateway.protocol.errors import Conflict
from gateway.tenancy.teams.key import Former, Key

MAX_FORMERS = 8
"""Maximum number of former secrets of a key that are valid at the same time. Each of them could leak."""


def rotated(key: Key, new_digest: str, grace_s: float, now: float, *, end_graces: bool = False) -> Key:
    """Return *key* with a new secret. The current secret stays valid for *grace_s* seconds from *now*, in seconds since
    1970.

    Grace periods of earlier rotations continue unless *end_graces* is true, so that a rotation by one person does not
    end a grace period granted by another.

    Raises:
        Conflict: if `MAX_FORMERS` former secrets are still valid.
    """
    formers = () if end_graces else key.formers(now)
    if grace_s > 0:
        formers = (Former(key.digest, now + grace_s), *formers)
    if len(formers) > MAX_FORMERS:
        raise Conflict(
            f"The key {key.id!r} has {MAX_FORMERS} former secrets in their grace period: wait until one ends, set "
            "grace_s to 0, or end them all with end_graces"
        )
    latest = formers[0] if formers else None
    return replace(
        key,
        digest=new_digest,
        former_digest=None if latest is None else latest.digest,
        former_until=None if latest is None else latest.until,
        earlier=formers[1:],
    )
