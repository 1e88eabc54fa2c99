"""The secret of a key, and what is kept of it: a digest.

A digest is HMAC-SHA-256, under a *pepper* that is kept apart from the keys, of the SHA-256 of the secret. So a key can
be declared by the SHA-256 of its secret alone, and a store that is stolen without its pepper tells nothing.
"""

import hashlib
import hmac
import secrets

SECRET_BYTES = 32
"""256 bits: nobody guesses them, so a fast digest is enough (no bcrypt)."""
_BLOCK_BYTES = 64
"""Of SHA-256, RFC 2104."""


def new_secret(key_id: str) -> str:
    """A secret for the key *key_id*: ``wg-<key_id>-<43 characters of base64url>``, shown once and never kept."""
    return f"wg-{key_id}-{secrets.token_urlsafe(SECRET_BYTES)}"


class Digester:
    """Makes digests under *pepper*, 64 hexadecimal digits each. Some 0.9 us."""

    def __init__(self, pepper: bytes) -> None:
        """The pepper is any bytes; 32 random ones are good.

        Raises:
            ValueError: it is empty.
        """
        if not pepper:
            raise ValueError("the pepper is empty")
        # Both halves of HMAC are begun once: hmac.digest begins them for every request, and takes half as long again.
        block = (pepper if len(pepper) <= _BLOCK_BYTES else hashlib.sha256(pepper).digest()).ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def digest(self, secret: str) -> str:
        """Of the secret itself."""
        return self.digest_of(hashed(secret))

    def digest_of(self, sha256: bytes) -> str:
        """Of a secret of which only the SHA-256 is known, 32 bytes."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(sha256)
        outer.update(inner.digest())
        return outer.hexdigest()


def hashed(secret: str) -> bytes:
    """The SHA-256 of *secret* in UTF-8."""
    return hashlib.sha256(secret.encode()).digest()


def fingerprint(pepper: bytes) -> str:
    """Return 16 hexadecimal digits that tell peppers apart; no digest of a key can be made from them."""
    return hmac.digest(pepper, b"warmgate: fingerprint of the pepper", "sha256").hex()[:16]


is_same = hmac.compare_digest
"""Whether two digests are equal, in a time that does not tell where they differ."""
