"""Authentication with Bedrock API keys, which are sent as bearer tokens instead of a signature.

AWS issues short-term keys (at most 12 hours, one region) and long-term keys (of an IAM user). Short-term keys are
replaced by an external process, so the key can be read from a file.
"""

import asyncio
from pathlib import Path

from gateway.protocol.errors import ConnectFailed


class BearerSigner:
    """Signer that adds a Bedrock API key to requests. Implements `gateway.backends.bedrock.endpoint.Signer`."""

    def __init__(self, *, token: str | None = None, file: Path | None = None) -> None:
        """Use the API key *token*, or read the key from *file* for each request.

        Raises:
            ValueError: if neither or both are given, or *token* contains characters that a header must not contain.
        """
        if (token is None) == (file is None):
            raise ValueError("Set the Bedrock API key either as a value or as a file, but not both")
        if token is not None and not _is_token(token):
            raise ValueError("The Bedrock API key contains characters that are not allowed in a header")
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
        """Return *headers* with the ``authorization`` header for the API key added.

        Raises:
            ConnectFailed: if the key file cannot be read or contains no valid key.
        """
        token = self._token or await asyncio.to_thread(self._read)
        return headers | {"authorization": f"Bearer {token}"}

    def forget_credentials(self) -> None:
        """Do nothing, because the API key is not cached."""

    def _read(self) -> str:
        """Read the Bedrock API key from its file. This blocks, so it runs in a thread."""
        assert self._file is not None, "without a token there is a file"
        try:
            token = self._file.read_text("ascii").strip()
        except (OSError, ValueError):
            token = ""
        if not _is_token(token):
            # The message reaches callers: it names neither the path nor the content.
            raise ConnectFailed("The gateway could not read its Bedrock API key")
        return token


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
