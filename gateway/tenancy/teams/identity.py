"""Identity of a store, and the fingerprint of the pepper (secret salt) that was used for its digests.

Both are written once, by `warmgate store init` or when a new SQLite file is created. A gateway compares them before it
uses a store, and again with each answer. So a store that has lost its data is detected, and is not silently filled
again.
"""

import secrets

import msgspec

from gateway.storage.unfit import StoreUnfit, lost, replaced
from gateway.tenancy.teams.secret import fingerprint

SCHEMA = 1
"""Version of the Redis key schema that this version of Warmgate writes. SQLite files have a version in ``PRAGMA
user_version``.
"""


class Identity(msgspec.Struct, frozen=True):
    """Identity record of a store."""

    id: str
    """Random id of the store, which has 32 hexadecimal digits."""
    fingerprint: str
    """Fingerprint of the store's pepper; see `gateway.tenancy.teams.secret.fingerprint`."""
    schema: int = SCHEMA


def new_identity(pepper: bytes) -> Identity:
    """Return a new identity for a store that is being initialized and whose digests use *pepper*."""
    return Identity(secrets.token_hex(16), fingerprint(pepper))


def pepper_of(identity: Identity | None, *, given: bytes | None, kept: bytes | None) -> bytes:
    """Return the pepper of a store: *given* from the settings if set, and otherwise *kept* from the store.

    Raises:
        StoreUnfit: if the store is not initialized, was written by a later version, or has another pepper.
    """
    if identity is None:
        raise uninitialized()
    if identity.schema > SCHEMA:
        text = f"The store has schema {identity.schema}, but this Warmgate supports only {SCHEMA}: use a later version"
        raise StoreUnfit(text, state="newer")
    pepper = kept if given is None else given
    if pepper is None:
        text = f"Set store.pepper to the pepper with the fingerprint {identity.fingerprint}, which the store uses"
        raise StoreUnfit(text, state="pepper_missing")
    if fingerprint(pepper) != identity.fingerprint:
        which = "The pepper in the store" if given is None else "store.pepper"
        text = f"{which} has the fingerprint {fingerprint(pepper)}, but the keys need {identity.fingerprint}"
        raise StoreUnfit(f"{text}: restore the previous store.pepper", state="pepper_differs")
    return pepper


def uninitialized() -> StoreUnfit:
    """Return the error for a store without an identity, which was never used or has lost its data."""
    text = "The store is not initialized: run 'warmgate store init' once, or restore a backup if it had data"
    return StoreUnfit(text, state="uninitialized")


def without_pepper() -> StoreUnfit:
    """Return the error for a store with keys but without a pepper, if the settings also contain no pepper."""
    text = "The store has keys but no pepper: set store.pepper to the pepper with which the keys were created"
    return StoreUnfit(text, state="pepper_missing")


def changed(found: Identity | None) -> StoreUnfit:
    """Return the error for a store whose identity changed to *found* while the store was in use."""
    return lost() if found is None else replaced()
