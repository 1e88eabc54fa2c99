from typing import Any

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.bearer import BearerSigner
from gateway.backends.fallbacks.catalog import Catalog, CatalogUnread, QuestionSigner, catalog_url, is_among
from tests.fakes.bedrock import CREDENTIALS, KeyHolder

URL = "https://bedrock.us-east-1.amazonaws.com/foundation-models"
LISTED: Any = {
    "modelSummaries": [
        {"modelId": "meta.llama3-3-70b-instruct-v1:0", "modelLifecycle": {"status": "LEGACY"}, "modelName": "Llama"},
        {"modelId": "qwen.qwen3-32b-v1:0", "modelLifecycle": {"status": "ACTIVE"}},
        {"modelId": "openai.gpt-oss-20b-1:0"},
    ]
}


async def legacy(answer: httpx.Response, signer: QuestionSigner | None = None) -> tuple[frozenset[str], httpx.Request]:
    seen = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
        found = await Catalog(client, signer or BearerSigner(token="key"), URL).legacy()
    return found, seen[0]


async def test_models_on_their_way_out_are_found() -> None:
    found, request = await legacy(httpx.Response(200, json=LISTED))

    assert {"meta.llama3-3-70b-instruct-v1:0"} == found
    assert ("GET", URL, "Bearer key") == (request.method, str(request.url), request.headers["authorization"])


async def test_the_question_is_signed_as_what_it_is() -> None:
    """botocore comes to the same signature for a GET with these headers."""
    signer = SigV4Signer(region="us-east-1", credentials=CredentialChain(new_session=KeyHolder))
    _, request = await legacy(httpx.Response(200, json=LISTED), signer)
    names = ("accept", "x-amz-date", "x-amz-security-token")
    same = AWSRequest(method="GET", url=URL, headers={name: request.headers[name] for name in names})
    same.context["timestamp"] = request.headers["x-amz-date"]
    auth = SigV4Auth(CREDENTIALS, "bedrock", "us-east-1")
    canonical = auth.canonical_request(same)

    assert canonical.startswith("GET\n/foundation-models\n")
    assert request.headers["authorization"].endswith(auth.signature(auth.string_to_sign(same, canonical), same))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(403, json={"message": "arn:aws:iam::123456789012:role/x may not"}), "AWS returned status 403"),
        (httpx.Response(200, text="<html>"), "AWS returned an unexpected response"),
        (httpx.Response(200, json={"models": []}), "AWS returned an unexpected response"),
    ],
)
async def test_what_is_no_list_is_reported_without_its_text(answer: httpx.Response, said: str) -> None:
    with pytest.raises(CatalogUnread) as caught:
        await legacy(answer)

    assert said == str(caught.value)


async def test_an_address_that_cannot_be_reached_is_reported() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route", request=request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
        with pytest.raises(CatalogUnread, match="ConnectError"):
            await Catalog(client, BearerSigner(token="key"), URL).legacy()


def test_each_region_has_its_own() -> None:
    assert URL == catalog_url("us-east-1")
    assert "https://bedrock.cn-north-1.amazonaws.com.cn/foundation-models" == catalog_url("cn-north-1")


@pytest.mark.parametrize(
    ("model_id", "among"),
    [
        ("meta.llama3-3-70b-instruct-v1:0", True),
        ("us.meta.llama3-3-70b-instruct-v1:0", True),
        ("us-gov.meta.llama3-3-70b-instruct-v1:0", True),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.meta.llama3-3-70b-instruct-v1:0", True),
        ("meta.llama3-3-70b-instruct-v2:0", False),
        ("qwen.qwen3-32b-v1:0", False),
        ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc", False),
    ],
)
def test_a_profile_is_among_them_as_its_model_is(model_id: str, among: bool) -> None:
    listed = frozenset({"meta.llama3-3-70b-instruct-v1:0"})

    assert among == is_among(model_id, listed)
