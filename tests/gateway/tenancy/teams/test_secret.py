import hashlib
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tenancy.teams.secret import Digester, hashed, is_same, new_secret


def test_a_secret_names_its_key_and_has_256_random_bits() -> None:
    """32 bytes are 43 characters of base64url."""
    assert re.fullmatch(r"wg-ci-[A-Za-z0-9_-]{43}", new_secret("ci"))


def test_no_secret_is_made_twice() -> None:
    assert 100 == len({new_secret("ci") for _ in range(100)})


@given(st.binary(min_size=1, max_size=200), st.text())
def test_a_digest_is_the_hmac_of_the_hash(pepper: bytes, secret: str) -> None:
    """Digests equal those of the standard library, RFC 2104, for peppers shorter and longer than a block."""
    secret = secret.encode(errors="replace").decode()
    expected = hmac.new(pepper, hashlib.sha256(secret.encode()).digest(), "sha256").hexdigest()

    assert expected == Digester(pepper).digest(secret)


def test_a_digest_can_be_made_from_the_hash_alone() -> None:
    """The configuration can name a key without its secret."""
    digester = Digester(b"pepper")

    assert digester.digest("wg-ci-x") == digester.digest_of(hashed("wg-ci-x"))


def test_another_pepper_makes_another_digest() -> None:
    assert Digester(b"one").digest("wg-ci-x") != Digester(b"two").digest("wg-ci-x")


def test_a_digester_can_be_used_again_and_again() -> None:
    digester = Digester(b"pepper")
    first = digester.digest("wg-ci-x")
    digester.digest("wg-ci-y")

    assert first == digester.digest("wg-ci-x")


def test_there_is_no_digest_without_a_pepper() -> None:
    with pytest.raises(ValueError, match="pepper"):
        Digester(b"")


def test_digests_are_the_same_or_not() -> None:
    assert is_same("ab", "ab")
    assert not is_same("ab", "ac")
