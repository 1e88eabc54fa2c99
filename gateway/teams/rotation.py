"""A new secret for a key, beside which the former one counts for a while."""

from msgspec.structs import replace

from gateway.teams.key import Key


def rotated(key: Key, new_digest: str, grace_s: float, now: float) -> Key:
    """*key* with another secret. The one that it had counts for *grace_s* from *now*, seconds since 1970.

    There is one former secret at most: one from an earlier rotation counts no more, whatever it was promised.
    """
    if grace_s <= 0:
        return replace(key, digest=new_digest, former_digest=None, former_until=None)
    return replace(key, digest=new_digest, former_digest=key.digest, former_until=now + grace_s)
