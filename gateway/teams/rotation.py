"""A new secret for a key, beside which former ones count for a while."""

from msgspec.structs import replace

from gateway.errors import Conflict
from gateway.teams.key import Former, Key

MAX_FORMERS = 8
"""Former secrets of one key that count at the same time; each is one more that may leak."""


def rotated(key: Key, new_digest: str, grace_s: float, now: float, *, end_graces: bool = False) -> Key:
    """Return *key* with another secret. The present one counts for *grace_s* from *now*, in seconds since 1970.

    Graces of earlier rotations run to their end, unless *end_graces*: nobody who was promised one is cut off because
    somebody else rotates.

    Raises:
        Conflict: the graces of `MAX_FORMERS` former secrets are running.
    """
    formers = () if end_graces else key.formers(now)
    if grace_s > 0:
        formers = (Former(key.digest, now + grace_s), *formers)
    if len(formers) > MAX_FORMERS:
        raise Conflict(
            f"The key {key.id!r} has {MAX_FORMERS} former secrets whose grace is running: wait until one ends, set "
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
