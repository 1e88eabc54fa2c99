"""The pepper of a store."""

import pytest

from gateway.storage.unfit import StoreUnfit
from gateway.tenancy.teams.identity import SCHEMA, Identity, changed, new_identity, pepper_of, without_pepper
from gateway.tenancy.teams.secret import fingerprint

OURS = Identity("a" * 32, fingerprint(b"ours"))


def state(identity: Identity | None, given: bytes | None, kept: bytes | None) -> str:
    with pytest.raises(StoreUnfit) as refused:
        pepper_of(identity, given=given, kept=kept)
    return refused.value.state


def test_each_identity_is_another_one() -> None:
    """It has 128 random bits. The fingerprint depends on the pepper only."""
    one, other = new_identity(b"ours"), new_identity(b"ours")

    assert (32, 32) == (len(one.id), len(other.id))
    assert one.id != other.id
    assert OURS.fingerprint == one.fingerprint == other.fingerprint


def test_the_pepper_is_the_given_one_or_the_one_that_the_store_keeps() -> None:
    for given, kept in ((b"ours", None), (None, b"ours"), (b"ours", b"ours"), (b"ours", b"of the store")):
        assert b"ours" == pepper_of(OURS, given=given, kept=kept)


def test_a_store_with_another_pepper_is_refused() -> None:
    """Whether it is not there, or is another one; and whatever the pepper is, where there is no identity."""
    assert "pepper_missing" == state(OURS, None, None)
    assert "pepper_differs" == state(OURS, b"another", b"ours")
    assert "pepper_differs" == state(OURS, None, b"another")
    assert "uninitialized" == state(None, b"ours", b"ours")
    assert "newer" == state(Identity("a", OURS.fingerprint, SCHEMA + 1), b"ours", None)


def test_a_store_in_use_that_has_no_identity_any_more_has_lost_its_data() -> None:
    assert ("lost", "replaced") == (changed(None).state, changed(OURS).state)
    assert "pepper_missing" == without_pepper().state
