import math
from typing import Any

import httpx
import openai
import pytest

EMBEDDINGS = "/v1/embeddings"


async def answer(worker: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    reply = await worker.post(path, json=body)
    assert 200 == reply.status_code, reply.text
    value: dict[str, Any] = reply.json()
    return value


async def test_a_vector_for_each_input(worker: httpx.AsyncClient) -> None:
    data = (await answer(worker, EMBEDDINGS, input=["one", "two", "one"]))["data"]
    vectors = [item["embedding"] for item in data]

    assert [0, 1, 2] == [item["index"] for item in data]
    assert (64, True) == (len(vectors[0]), math.isclose(1, sum(x * x for x in vectors[0])))
    assert vectors[0] == vectors[2] != vectors[1]


async def test_the_last_token_of_a_long_input_counts(worker: httpx.AsyncClient) -> None:
    """The vector is of the whole input."""
    vectors = [(await answer(worker, EMBEDDINGS, input="e" * 4000 + end))["data"][0]["embedding"] for end in ("a", "b")]

    assert vectors[0] != vectors[1]


async def test_the_sdk_reads_an_embedding(worker: httpx.AsyncClient) -> None:
    """It asks for base64, which says the same to 32 bits."""
    floats = (await answer(worker, EMBEDDINGS, input="Hello", dimensions=8))["data"][0]["embedding"]
    async with openai.AsyncOpenAI(base_url=f"{worker.base_url}/v1", api_key="none", max_retries=0) as sdk:
        reply = await sdk.embeddings.create(model="tiny", input="Hello", dimensions=8)

    assert pytest.approx(floats, abs=1e-6) == reply.data[0].embedding
    assert (3, 3) == (reply.usage.prompt_tokens, reply.usage.total_tokens)


async def test_tokens_and_chats_can_be_embedded(worker: httpx.AsyncClient) -> None:
    """A list of ids is one input, a chat is the prompt that /tokenize gives."""
    chat = {"messages": [{"role": "user", "content": "Hello"}]}
    ids = (await answer(worker, "/tokenize", **chat))["tokens"]

    by_ids = await answer(worker, EMBEDDINGS, input=ids)
    by_chat = await answer(worker, EMBEDDINGS, **chat)

    assert by_ids["data"] == by_chat["data"]
    assert 12 == by_chat["usage"]["prompt_tokens"]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
async def test_documents_in_order(worker: httpx.AsyncClient, path: str) -> None:
    """The best first, each with its place in the request; no more than asked for."""
    documents = ["one", {"text": "two"}, "three"]
    whole = (await answer(worker, path, query="q", documents=documents))["results"]
    top = (await answer(worker, path, query="q", documents=documents, top_n=2))["results"]
    scores = [result["relevance_score"] for result in whole]

    assert sorted(scores, reverse=True) == scores
    assert {0: "one", 1: "two", 2: "three"} == {result["index"]: result["document"]["text"] for result in whole}
    assert whole[:2] == top


@pytest.mark.parametrize("path", ["/v1/score", "/score"])
async def test_pairs_are_scored(worker: httpx.AsyncClient, path: str) -> None:
    """One with each or each with its own, under either name; a score is that of the ranking."""
    scores = [item["score"] for item in (await answer(worker, path, text_1="q", text_2=["one", "two"]))["data"]]
    named = await answer(worker, path, queries=["q", "q"], documents=["one", "two"])
    ranked = (await answer(worker, "/rerank", query="q", documents=["one"]))["results"][0]

    assert scores == [item["score"] for item in named["data"]]
    assert scores[0] == ranked["relevance_score"]
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (EMBEDDINGS, {"input": "Hello", "model": "other"}, 404, "The model `other` does not exist."),
        (EMBEDDINGS, {}, 400, "input: must be a non-empty string"),
        (EMBEDDINGS, {"input": ""}, 400, "input: must not be empty"),
        (EMBEDDINGS, {"input": "e" * 40_000}, 400, "your request has 10000 input tokens"),
        (EMBEDDINGS, {"input": "x", "encoding_format": "x"}, 400, "encoding_format"),
        ("/score", {"text_1": "x"}, 400, "text_2: must be a non-empty string or a non-empty list"),
        ("/score", {"text_1": ["x"] * 2, "text_2": ["x"] * 3}, 400, "2 texts cannot be paired with 3 texts"),
        ("/rerank", {"query": "x", "documents": [{}]}, 400, "documents[0].text: must be a string"),
    ],
)
async def test_what_cannot_be_pooled(
    worker: httpx.AsyncClient, path: str, body: Any, status: int, message: str
) -> None:
    """It is refused, naming the field."""
    reply = await worker.post(path, json=body)

    assert status == reply.status_code
    assert message in reply.json()["error"]["message"]


async def test_a_pooled_request_is_in_the_journal(worker: httpx.AsyncClient) -> None:
    await worker.post("/control/faults", json={"mode": "status", "status": 503, "count": 1})
    statuses = [(await worker.post(EMBEDDINGS, json={"input": "Hello"})).status_code for _ in range(2)]
    log = (await worker.get("/control/requests")).json()["requests"]

    assert [503, 200] == statuses
    assert [("failed", 3), ("finished", 3)] == [(entry["state"], entry["prompt_tokens"]) for entry in log]
