"""Bedrock API keys: a bearer token instead of a signature.

AWS makes short ones (12 hours at most, tied to a region) and long ones (of an IAM user). The short ones have to be
replaced from outside, hence the file.
"""

import asyncio
from pathlib import Path

from gateway.protocol.errors import ConnectFailed


class BearerSigner:
    """Puts an API key on a request; implements `gateway.backends.bedrock.endpoint.Signer`, also for plain HTTP."""

    def __init__(self, *, token: str | None = None, file: Path | None = None) -> None:
        """Use the *token*, or the *file* that holds it, which is read again for each request.

        Raises:
            ValueError: neither or both are given, or *token* cannot stand in a header.
        """
        if (token is None) == (file is None):
            raise ValueError("give the Bedrock API key either as a value or as a file")
        if token is not None and not _is_token(token):
            raise ValueError("the Bedrock API key contains invalid characters")
        self._token = token
        self._file = file

    async def sign(
        self,
        *,
        url: str,  # noqa: ARG002  # nothing is signed
        headers: dict[str, str],
        body: bytes,  # noqa: ARG002
        method: str = "POST",  # noqa: ARG002
    ) -> dict[str, str]:
        """*headers* with the key.

        Raises:
            ConnectFailed: the file cannot be read, or holds no key.
        """
        token = self._token or await asyncio.to_thread(self._read)
        return headers | {"authorization": f"Bearer {token}"}

    def forget_credentials(self) -> None:
        """Do nothing: no credentials are cached."""

    def _read(self) -> str:
        """Blocking. Runs in a thread."""
        assert self._file is not None, "there is no token"
        try:
            token = self._file.read_text("ascii").strip()
        except (OSError, ValueError):
            token = ""
        if not _is_token(token):
            # The message reaches callers: it names neither the path nor the content.
            raise ConnectFailed("the gateway's Bedrock API key could not be read")
        return token


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
