"""Salt that separates a team's cached prefixes from those of other teams."""

import base64
import hmac


def isolated_salt(team: str, pepper: bytes) -> str:
    """Return the ``cache_salt`` of *team*: the same in every gateway of one store, and unpredictable without *pepper*.

    43 characters of base64url, 256 bits. vLLM accepts any text that is not empty (``cache_salt`` of its requests).
    """
    digest = hmac.digest(pepper, b"cache_salt\0" + team.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
