import httpx
import pytest


async def test_text_to_tokens_and_back(worker: httpx.AsyncClient) -> None:
    """Tokenize counts, and detokenize gives the text again."""
    tokens = (await worker.post("/tokenize", json={"prompt": "Grüße", "return_token_strs": True})).json()
    back = (await worker.post("/detokenize", json={"tokens": tokens["tokens"]})).json()

    assert (4, 8192, ["Gr", "ü", "ß", "e"]) == (tokens["count"], tokens["max_model_len"], tokens["token_strs"])
    assert {"prompt": "Grüße"} == back


async def test_a_chat_has_the_tokens_that_are_counted(worker: httpx.AsyncClient) -> None:
    """Tokenize with messages gives what the chat endpoint uses as its prompt, tools included."""
    chat = {"messages": [{"role": "user", "content": "Hello"}], "tools": [{"type": "function"}]}
    tokens = (await worker.post("/tokenize", json=chat)).json()
    reply = (await worker.post("/v1/chat/completions", json=chat | {"return_token_ids": True})).json()

    assert tokens["tokens"] == reply["prompt_token_ids"]
    assert tokens["count"] == reply["usage"]["prompt_tokens"]
    assert None is tokens["token_strs"]


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
async def test_only_json_is_taken(worker: httpx.AsyncClient, path: str) -> None:
    """Malformed JSON and other media types are a 400."""
    media = await worker.post(path, content=b"{}", headers={"content-type": "text/plain"})
    malformed = await worker.post(path, content=b"{", headers={"content-type": "application/json"})

    assert (400, 400) == (media.status_code, malformed.status_code)
