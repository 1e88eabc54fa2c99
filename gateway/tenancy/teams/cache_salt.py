"""Salt that separates the cached prefixes of one team from those of other teams."""

import base64
import hmac


def isolated_salt(team: str, pepper: bytes) -> str:
    """Return the ``cache_salt`` of *team*. It is equal in all gateways with the same store, and cannot be predicted
    without *pepper*.

    The salt has 256 bits, as 43 characters of base64url. vLLM accepts any non-empty text as ``cache_salt``.
    """
    digest = hmac.digest(pepper, b"cache_salt\0" + team.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
