"""What the gateway signs is what AWS's SDKs in C would."""

import asyncio
import json
import subprocess

import pytest

from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.endpoint import model_segment
from tests.bedrock.environment import BIN, HERE
from tests.fakes.bedrock import CREDENTIALS, KeyHolder

HOST = "bedrock-runtime.eu-central-1.amazonaws.com"
REGION = "eu-central-1"
MODELS = (
    "qwen.qwen3-32b-v1:0",
    "us.meta.llama3-3-70b-instruct-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc",
    "arn:aws:bedrock:us-east-1:123456789012:imported-model/a b+c~d",
)
PATHS = [
    *(
        f"/model/{model_segment(model)}/{operation}"
        for model in MODELS
        for operation in ("converse", "converse-stream")
    ),
    "/openai/v1/chat/completions",
]
BODIES = ("", '{"messages":[]}', json.dumps({"text": "Grüße, 世界 " * 40_000}, ensure_ascii=False))


async def test_the_signature_is_that_of_awscrt() -> None:
    """For ids, profiles and ARNs, small bodies and those that are signed in a thread."""
    if not (BIN / "python").exists():
        pytest.skip("awscrt is not installed here: python -m tests.bedrock.environment")
    signer = SigV4Signer(region=REGION, credentials=CredentialChain(new_session=KeyHolder))
    ours: list[str] = []
    asked: list[dict[str, str | None]] = []
    for path in PATHS:
        for body in BODIES:
            headers = await signer.sign(
                url=f"https://{HOST}{path}", headers={"content-type": "application/json"}, body=body.encode()
            )
            ours.append(headers["Authorization"])
            asked.append(
                {
                    "host": HOST,
                    "path": path,
                    "body": body,
                    "region": REGION,
                    "date": headers["X-Amz-Date"],
                    "access_key": CREDENTIALS.access_key,
                    "secret_key": CREDENTIALS.secret_key,
                    "token": CREDENTIALS.token,
                }
            )

    theirs = await asyncio.to_thread(_signed_by_awscrt, asked)

    assert [_parts(line) for line in theirs] == [_parts(line) for line in ours]


def _signed_by_awscrt(asked: list[dict[str, str | None]]) -> list[str]:
    said = subprocess.run(
        [BIN / "python", HERE / "awscrt_signature.py"],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    signed: list[str] = json.loads(said.stdout)
    return signed


def _parts(authorization: str) -> tuple[str, set[str], str]:
    """Scope, the names of the signed headers, and the signature."""
    scope, signed, signature = (part.split("=", 1)[1] for part in authorization.split(", "))
    return scope, set(signed.split(";")), signature
