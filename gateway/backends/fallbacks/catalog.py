"""List of Bedrock models from AWS, used to find models that will be retired soon."""

import re
from typing import Protocol

import httpx
import msgspec

LEGACY = "LEGACY"
"""Value of ``modelLifecycle.status`` (ListFoundationModels) for models that AWS retires within months. Accounts that
have not used such a model recently lose access to it (AWS's user guide, model-lifecycle).
"""
ANSWER_S = 30.0


class QuestionSigner(Protocol):
    """Interface for adding the gateway's credentials to requests with any HTTP method."""

    async def sign(self, *, url: str, headers: dict[str, str], body: bytes, method: str) -> dict[str, str]:
        """Return *headers* with the signature headers added.

        Raises:
            ConnectFailed: if no credentials are available.
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
    """The list of models could not be read. The message contains the reason, and nothing else depends on the list."""


class Catalog:
    """List of Bedrock models in one AWS region."""

    def __init__(self, client: httpx.AsyncClient, signer: QuestionSigner, url: str) -> None:
        """Create a reader of the model list at *url*, which is the address of AWS's ListFoundationModels."""
        self._client = client
        self._signer = signer
        self._url = url

    async def legacy(self) -> frozenset[str]:
        """Return the ids of the models that AWS will retire soon.

        Raises:
            CatalogUnread: if AWS cannot be reached, denies access (``bedrock:ListFoundationModels`` is required) or
                returns an unexpected response.
            ConnectFailed: if no credentials are available.
        """
        headers = await self._signer.sign(url=self._url, headers={"accept": "application/json"}, body=b"", method="GET")
        try:
            response = await self._client.get(self._url, headers=headers, timeout=ANSWER_S, follow_redirects=False)
        except httpx.HTTPError as error:
            raise CatalogUnread(type(error).__name__) from None
        if response.status_code != httpx.codes.OK:
            raise CatalogUnread(f"AWS returned status {response.status_code}")
        try:
            listed = msgspec.json.decode(response.content, type=_Listed)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise CatalogUnread("AWS returned an unexpected response") from None
        return frozenset(model.model_id for model in listed.model_summaries if model.model_lifecycle.status == LEGACY)


def catalog_url(region: str) -> str:
    """Return the URL of the model list in *region*. It is on Bedrock's control plane, which has another host than
    inference.
    """
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock.{region}.{suffix}/foundation-models"


def is_among(model_id: str, listed: frozenset[str]) -> bool:
    """Return whether *model_id* is in *listed*, or is an inference profile (with a prefix such as ``us.``) of a model
    in *listed*.
    """
    name = model_id.rpartition("/")[2]  # of an ARN
    return name in listed or re.sub(r"^[a-z-]+\.(?=[a-z0-9-]+\.)", "", name) in listed
