import json
from typing import Any

import httpx
import openai
import pytest

PATH = "/v1/audio/transcriptions"
AUDIO = bytes(range(256)) * 250  # two seconds


async def heard(worker: httpx.AsyncClient, audio: bytes = AUDIO, **data: str) -> httpx.Response:
    return await worker.post(PATH, files={"file": ("a.wav", audio, "audio/wav")}, data=data)


async def test_text_depends_on_every_byte(worker: httpx.AsyncClient) -> None:
    """The same file is heard the same, and another language differently."""
    first, again = (await heard(worker)).json(), (await heard(worker, model="tiny")).json()

    assert first == again
    assert {"type": "duration", "seconds": 2} == first["usage"]
    assert first["text"] != (await heard(worker, AUDIO[:-1] + b"x")).json()["text"]
    assert first["text"] != (await heard(worker, language="de")).json()["text"]


async def test_the_sdk_reads_a_transcription(worker: httpx.AsyncClient) -> None:
    """OpenAI's own client sends the form."""
    async with openai.AsyncOpenAI(base_url=f"{worker.base_url}/v1", api_key="none", max_retries=0) as sdk:
        transcription = await sdk.audio.transcriptions.create(model="tiny", file=("a.wav", AUDIO))

    assert (await heard(worker)).json()["text"] == transcription.text


async def test_a_stream(worker: httpx.AsyncClient) -> None:
    """Chunks of the whole text, with usage where it is asked for."""
    whole = (await heard(worker)).json()["text"]
    reply = await heard(worker, stream="true", stream_include_usage="true")
    *lines, done, rest = reply.text.split("\n\n")
    chunks: list[dict[str, Any]] = [json.loads(line.removeprefix("data: ")) for line in lines]
    text = "".join(choice["delta"]["content"] for chunk in chunks for choice in chunk["choices"])

    assert ("data: [DONE]", "") == (done, rest)
    assert whole == text
    assert {"transcription.chunk"} == {chunk["object"] for chunk in chunks}
    assert len(chunks) - 1 == chunks[-1]["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    ("data", "audio", "status", "message"),
    [
        ({"model": "other"}, AUDIO, 404, "The model `other` does not exist."),
        ({}, b"", 400, "file: required"),
        ({"response_format": "srt"}, AUDIO, 400, "response_format: the simulator supports only json, got srt"),
    ],
)
async def test_a_bad_form(worker: httpx.AsyncClient, data: Any, audio: bytes, status: int, message: str) -> None:
    """It is refused, naming the field."""
    reply = await heard(worker, audio, **data)

    assert status == reply.status_code
    assert message in reply.json()["error"]["message"]


async def test_json_is_no_form(worker: httpx.AsyncClient) -> None:
    """It is a 400, as JSON is what every other endpoint takes."""
    assert 400 == (await worker.post(PATH, json={"file": "x"})).status_code
