from pathlib import Path

import pytest

from gateway.backends.bedrock.bearer import BearerSigner
from gateway.protocol.errors import ConnectFailed

HEADERS = {"content-type": "application/json"}


async def authorization(signer: BearerSigner) -> str:
    headers = await signer.sign(url="http://127.0.0.1/model/m/converse", headers=HEADERS, body=b"{}")
    assert "application/json" == headers["content-type"]
    return headers["authorization"]


async def test_the_key_is_a_bearer_token() -> None:
    """Also for plain HTTP, where botocore refuses: a private endpoint may well be such."""
    assert "Bearer bedrock-api-key-abc" == await authorization(BearerSigner(token="bedrock-api-key-abc"))


async def test_a_file_is_read_again(tmp_path: Path) -> None:
    """Short keys are replaced from outside while the gateway runs."""
    file = tmp_path / "key"
    signer = BearerSigner(file=file)
    file.write_text("one\n")
    first = await authorization(signer)
    file.write_text("two\n")

    assert ("Bearer one", "Bearer two") == (first, await authorization(signer))


@pytest.mark.parametrize("content", [None, "", "  \n", "two words", "one\ntwo", "schlüssel"])
async def test_a_file_without_a_key_sends_nothing(tmp_path: Path, content: str | None) -> None:
    """The caller learns neither the path nor what is there."""
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    with pytest.raises(ConnectFailed) as caught:
        await authorization(BearerSigner(file=file))

    assert "The gateway could not read its Bedrock API key" == caught.value.message


def test_exactly_one_source_is_given(tmp_path: Path) -> None:
    """Neither, or both, is a mistake; so is what cannot stand in a header."""
    with pytest.raises(ValueError, match="either as a value"):
        BearerSigner()
    with pytest.raises(ValueError, match="either as a value"):
        BearerSigner(token="a", file=tmp_path)
    with pytest.raises(ValueError, match="characters") as caught:
        BearerSigner(token="sec\r\nret")
    assert "sec" not in str(caught.value)


async def test_forgetting_keeps_a_key_that_was_given() -> None:
    """There is no other to be had."""
    signer = BearerSigner(token="abc")
    signer.forget_credentials()

    assert "Bearer abc" == await authorization(signer)
