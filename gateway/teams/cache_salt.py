"""What sets a team's cached prefixes apart from those of all others."""

import base64
import hmac


def isolated_salt(team: str, pepper: bytes) -> str:
    """The ``cache_salt`` of *team*: the same in every gateway of one store, and nobody without *pepper* can tell it.

    43 characters of base64url, of 256 bits: vLLM takes any text that is not empty (``cache_salt`` of its requests).
    """
    digest = hmac.digest(pepper, b"cache_salt\0" + team.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
