"""AWS's list of Bedrock's models, with those that it is about to withdraw."""

import re
from typing import Protocol

import httpx
import msgspec

LEGACY = "LEGACY"
"""``modelLifecycle.status`` (ListFoundationModels). Accounts that did not use such a
model lately cannot have it; it ends after some months (AWS's user guide, model-lifecycle)."""
ANSWER_S = 30.0


class QuestionSigner(Protocol):
    """Signer of requests with any method."""

    async def sign(self, *, url: str, headers: dict[str, str], body: bytes, method: str) -> dict[str, str]:
        """Return *headers* with the signature's headers.

        Raises:
            ConnectFailed: there are no credentials.
        """
        ...


class _LifeCycle(msgspec.Struct, frozen=True):
    status: str = ""


class _Summary(msgspec.Struct, rename="camel"):
    model_id: str
    model_lifecycle: _LifeCycle = _LifeCycle()


class _Listed(msgspec.Struct, rename="camel"):
    model_summaries: list[_Summary]


class CatalogUnread(Exception):
    """The catalog cannot be read; the message says why. Nothing depends on it."""


class Catalog:
    """Catalog of one region."""

    def __init__(self, client: httpx.AsyncClient, signer: QuestionSigner, url: str) -> None:
        """*url* is the address of ListFoundationModels."""
        self._client = client
        self._signer = signer
        self._url = url

    async def legacy(self) -> frozenset[str]:
        """Return the ids of the models that AWS is about to withdraw.

        Raises:
            CatalogUnread: AWS cannot be reached, refuses (the right ``bedrock:ListFoundationModels`` is needed), or
                answers something else.
            ConnectFailed: there are no credentials.
        """
        headers = await self._signer.sign(url=self._url, headers={"accept": "application/json"}, body=b"", method="GET")
        try:
            response = await self._client.get(self._url, headers=headers, timeout=ANSWER_S, follow_redirects=False)
        except httpx.HTTPError as error:
            raise CatalogUnread(type(error).__name__) from None
        if response.status_code != httpx.codes.OK:
            raise CatalogUnread(f"answered {response.status_code}")
        try:
            listed = msgspec.json.decode(response.content, type=_Listed)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise CatalogUnread("answered something else") from None
        return frozenset(model.model_id for model in listed.model_summaries if model.model_lifecycle.status == LEGACY)


def catalog_url(region: str) -> str:
    """Return the address of the list at Bedrock's control plane, whose host is not that of the models."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock.{region}.{suffix}/foundation-models"


def is_among(model_id: str, listed: frozenset[str]) -> bool:
    """Return whether *model_id* is one of *listed*, or an inference profile of one, with a prefix such as ``us.``."""
    name = model_id.rpartition("/")[2]  # of an ARN
    return name in listed or re.sub(r"^[a-z-]+\.(?=[a-z0-9-]+\.)", "", name) in listed
