"""AWS's list of Bedrock's models: which of them it is about to take away."""

import re
from typing import Protocol

import httpx
import msgspec

LEGACY = "LEGACY"
"""``modelLifecycle.status`` (ListFoundationModels). Such a model is not to be had by accounts that did not use it of
late, and ends after some months (AWS's user guide, model-lifecycle)."""
ANSWER_S = 30.0


class QuestionSigner(Protocol):
    """Puts the gateway's identity on a request of any method."""

    async def sign(self, *, url: str, headers: dict[str, str], body: bytes, method: str) -> dict[str, str]:
        """*headers* with those of the signature.

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


class CatalogueUnread(Exception):
    """AWS did not tell; the reason is in the message. Nothing depends on it."""


class Catalogue:
    """Of one region."""

    def __init__(self, client: httpx.AsyncClient, signer: QuestionSigner, url: str) -> None:
        """*url* is that of ListFoundationModels."""
        self._client = client
        self._signer = signer
        self._url = url

    async def legacy(self) -> frozenset[str]:
        """Ids of the models that are on their way out.

        Raises:
            CatalogueUnread: AWS cannot be reached, refuses (the right ``bedrock:ListFoundationModels`` is needed), or
                answers something else.
            ConnectFailed: there are no credentials.
        """
        headers = await self._signer.sign(url=self._url, headers={"accept": "application/json"}, body=b"", method="GET")
        try:
            response = await self._client.get(self._url, headers=headers, timeout=ANSWER_S, follow_redirects=False)
        except httpx.HTTPError as error:
            raise CatalogueUnread(type(error).__name__) from None
        if response.status_code != httpx.codes.OK:
            raise CatalogueUnread(f"answered {response.status_code}")
        try:
            listed = msgspec.json.decode(response.content, type=_Listed)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise CatalogueUnread("answered something else") from None
        return frozenset(model.model_id for model in listed.model_summaries if model.model_lifecycle.status == LEGACY)


def catalogue_url(region: str) -> str:
    """Of Bedrock's control plane, which is another host than that of the models."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock.{region}.{suffix}/foundation-models"


def is_among(model_id: str, listed: frozenset[str]) -> bool:
    """Whether *model_id* is one of *listed*, or an inference profile of one: ``us.`` and the like stands before it."""
    name = model_id.rpartition("/")[2]  # of an ARN
    return name in listed or re.sub(r"^[a-z-]+\.(?=[a-z0-9-]+\.)", "", name) in listed
