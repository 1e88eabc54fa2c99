import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol.endpoints.endpoint import FORM, JSON
from gateway.protocol.endpoints.faults import ANTHROPIC, OPENAI, RESPONSES
from gateway.protocol.endpoints.messages import MessagesObserver
from gateway.protocol.endpoints.responses import ResponsesObserver
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import InvalidField, MalformedBody
from gateway.protocol.sse import ChunkObserver
from gateway.protocol.usage import Usage

BODY = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Hi"}],
    "prompt": "Hi",
    "input": "Hi",
    "stream": True,
}
RAW = json.dumps(BODY).encode()
FORM_TYPE = b"multipart/form-data; boundary=b0"
FORM_RAW = (
    b'--b0\r\nContent-Disposition: form-data; name="model"\r\n\r\ntiny\r\n'
    b'--b0\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n--b0--\r\n'
)

GENERATING = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]
POOLING = [
    "/v1/embeddings",
    "/v1/rerank",
    "/rerank",
    "/v2/rerank",
    "/v1/score",
    "/score",
    "/pooling",
    "/classify",
    "/v2/embed",
]
SCORING = ["/generative_scoring", "/v1/decisions", "/v1/systemone"]
BATCH = "/v1/chat/completions/batch"
COUNTING = ["/tokenize", "/detokenize", "/v1/messages/count_tokens"]
LISTENING = ["/v1/audio/transcriptions", "/v1/audio/translations"]


def test_every_endpoint_stands_under_its_path() -> None:
    """The table holds these, and no others."""
    assert sorted([*GENERATING, BATCH, *POOLING, *SCORING, *COUNTING, *LISTENING]) == sorted(ENDPOINTS)
    assert all(path == endpoint.path for path, endpoint in ENDPOINTS.items())


@pytest.mark.parametrize("path", GENERATING)
def test_what_generates_is_routed_by_its_prompt(path: str) -> None:
    """It streams, reads the cache and fills it."""
    body = ENDPOINTS[path].parse(RAW, JSON)

    assert ("tiny", True, True, True) == (body.model, body.streams, body.reads_cache, body.writes_cache)
    assert body.prompt.endswith(b"Hi")


def test_several_chats_are_routed_by_the_first() -> None:
    """All of them count as work, and an error names the invalid one."""
    chats = [[{"role": "user", "content": text}] for text in ("first", "second")]
    body = ENDPOINTS[BATCH].parse(json.dumps({"model": "tiny", "messages": chats, "max_tokens": 3}).encode(), JSON)
    one = ENDPOINTS["/v1/chat/completions"].parse(json.dumps({"model": "tiny", "messages": chats[0]}).encode(), JSON)

    assert body.prompt.startswith(one.prompt)
    assert body.prompt.endswith(b"second")
    assert ("tiny", 3, True, True) == (body.model, body.max_tokens, body.reads_cache, body.writes_cache)
    with pytest.raises(InvalidField, match=r"'messages\[0\]' must be a list"):
        ENDPOINTS[BATCH].parse(json.dumps({"model": "tiny", "messages": chats[0]}).encode(), JSON)
    with pytest.raises(InvalidField, match="at least one chat"):
        ENDPOINTS[BATCH].parse(b'{"model": "tiny", "messages": []}', JSON)


@pytest.mark.parametrize("path", SCORING)
def test_scoring_reads_and_fills_the_cache_of_a_generating_model(path: str) -> None:
    """Questions about the same state meet on the worker that holds it."""
    raw = {"model": "tiny", "instructions": "Be fair.", "state": "long", "questions": {"q": {"type": "bool"}}}
    body = ENDPOINTS[path].parse(json.dumps(raw).encode(), JSON)

    assert body.prompt.startswith(b"Be fair.long")
    assert (False, 0, True, True) == (body.streams, body.max_tokens, body.reads_cache, body.writes_cache)


@pytest.mark.parametrize("path", POOLING + COUNTING)
def test_what_does_not_generate_fills_no_cache(path: str) -> None:
    """It does not stream either, even if the body asks for it."""
    body = ENDPOINTS[path].parse(RAW, JSON)

    assert ("tiny", False, False, False, 0) == (
        body.model,
        body.streams,
        body.reads_cache,
        body.writes_cache,
        body.max_tokens,
    )


@pytest.mark.parametrize("path", LISTENING)
def test_speech_comes_as_a_form(path: str) -> None:
    """The answer may be a stream of chunks."""
    endpoint = ENDPOINTS[path]
    body = endpoint.parse(FORM_RAW, FORM_TYPE)

    assert (FORM, "tiny", True) == (endpoint.media, body.model, body.streams)
    assert FORM_RAW.replace(b"tiny", b"other") == endpoint.upstream_body(FORM_RAW, FORM_TYPE, body, "other")


def test_only_speech_comes_as_a_form() -> None:
    """Everything else is JSON."""
    assert LISTENING == [path for path, endpoint in ENDPOINTS.items() if endpoint.media != JSON]


def test_each_api_has_its_own_stream_and_its_own_errors() -> None:
    """All but two speak as OpenAI's completions do."""
    messages = {"/v1/messages": MessagesObserver}
    observers = {"/v1/responses": ResponsesObserver, **messages}
    shapes = {"/v1/responses": RESPONSES, "/v1/messages": ANTHROPIC, "/v1/messages/count_tokens": ANTHROPIC}

    for path, endpoint in ENDPOINTS.items():
        assert observers.get(path, ChunkObserver) is type(endpoint.observer(strip_usage=False))
        assert shapes.get(path, OPENAI) is endpoint.errors


@pytest.mark.parametrize(
    ("path", "usage"),
    [
        ("/v1/chat/completions", {"prompt_tokens": 9, "completion_tokens": 2}),
        ("/v1/responses", {"input_tokens": 9, "output_tokens": 2}),
        ("/v1/messages", {"input_tokens": 9, "output_tokens": 2}),
        ("/v1/audio/transcriptions", {"type": "tokens", "input_tokens": 9, "output_tokens": 2}),
    ],
)
def test_usage_is_read_in_the_words_of_the_api(path: str, usage: dict[str, object]) -> None:
    """A completion has prompt and completion tokens, the others input and output tokens."""
    assert Usage(9, 2) == ENDPOINTS[path].usage_of(json.dumps({"usage": usage}).encode())


def test_a_rerank_may_say_only_a_total() -> None:
    """All of it is prompt."""
    assert Usage(9, 0) == ENDPOINTS["/v2/rerank"].usage_of(b'{"usage":{"total_tokens":9}}')


def test_only_responses_are_kept_by_a_worker() -> None:
    """Only they have an id for later requests."""
    known = [path for path, endpoint in ENDPOINTS.items() if endpoint.response_id_of(b'{"id":"x"}') == "x"]

    assert ["/v1/responses"] == known


words = st.sampled_from(
    ["type", "role", "content", "text", "input", "output", "id", "message", "function_call", "tool_use", "tool_result"]
)
jsons = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=3) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
)
names = st.sampled_from(["messages", "input", "system", "tools", "instructions", "metadata", "max_tokens", "documents"])


@settings(deadline=None)
@given(st.sampled_from([*GENERATING, BATCH, *POOLING, *SCORING, *COUNTING]), st.dictionaries(names, jsons))
def test_any_body_is_read_or_refused(path: str, fields: dict[str, Any]) -> None:
    """Whatever stands in it: a worker gets it, or the caller learns what is wrong."""
    with contextlib.suppress(MalformedBody, InvalidField):
        ENDPOINTS[path].parse(json.dumps({"model": "tiny", **fields}).encode(), JSON)
