"""Bodies as they should not be: JSON of every kind and no kind, and what was right until something was changed."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from gateway.protocol.endpoints.endpoint import FORM
from gateway.protocol.endpoints.table import ENDPOINTS
from tests.fuzz.target import MARKER

PROMPT = f"Why is the sky blue, {MARKER}?"
_CHAT = [{"role": "user", "content": PROMPT}]
_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
_PARTS = [{"type": "text", "text": PROMPT}, {"type": "image_url", "image_url": {"url": f"data:,{MARKER}"}}]

VALID: Mapping[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [
        {"messages": _CHAT, "max_tokens": 4, "n": 1, "stream": False, "user": "u", "cache_salt": "s"},
        {"messages": _CHAT, "stream": True, "stream_options": {"include_usage": True}, "max_completion_tokens": 3},
        {
            "messages": [
                {"role": "system", "content": _PARTS},
                {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "1", "content": PROMPT},
            ],
            "tools": _TOOLS,
            "logprobs": True,
            "max_tokens": 2,
        },
    ],
    "/v1/completions": [
        {"prompt": PROMPT, "max_tokens": 4, "echo": True, "logprobs": 1},
        {"prompt": [PROMPT, PROMPT], "max_tokens": 2, "stream": True},
        {"prompt": [1, 2, 3], "max_tokens": 2},
        {"prompt": [[1, 2], [3]], "n": 2, "max_tokens": 1},
    ],
    "/v1/responses": [
        {"input": PROMPT, "max_output_tokens": 4, "instructions": PROMPT, "reasoning": {"effort": "low"}},
        {"input": [{"type": "message", "role": "user", "content": PROMPT}], "stream": True, "tools": _TOOLS},
        {"input": [{"type": "function_call_output", "call_id": "1", "output": PROMPT}], "stream": False},
    ],
    "/v1/messages": [
        {"messages": _CHAT, "max_tokens": 4, "system": PROMPT, "metadata": {"user_id": "u"}},
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}],
            "max_tokens": 4,
            "stream": True,
        },
        {
            "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": PROMPT}]}],
            "system": [{"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}}],
            "max_tokens": 2,
        },
    ],
    "/v1/messages/count_tokens": [{"messages": _CHAT, "system": PROMPT}],
    "/v1/embeddings": [{"input": PROMPT}, {"input": [PROMPT], "encoding_format": "base64"}, {"input": [[1, 2]]}],
    "/tokenize": [{"prompt": PROMPT}, {"messages": _CHAT}],
    "/detokenize": [{"tokens": [1, 2, 3]}],
    "/v1/chat/completions/batch": [{"messages": [_CHAT, _CHAT], "max_tokens": 2}],
    "/v2/embed": [{"texts": [PROMPT], "input_type": "query", "embedding_types": ["float"]}],
    "/generative_scoring": [{"query": PROMPT, "items": [PROMPT], "label_token_ids": [1, 2]}],
    **{
        path: [{"state": PROMPT, "questions": {"blue": {"type": "bool", "instructions": PROMPT}}}]
        for path in ("/v1/decisions", "/v1/systemone")
    },
    "/pooling": [{"input": PROMPT}, {"messages": _CHAT}],
    "/classify": [{"input": PROMPT}],
    **{path: [{"query": PROMPT, "documents": [PROMPT, PROMPT]}] for path in ("/v1/rerank", "/rerank", "/v2/rerank")},
    **{path: [{"text_1": PROMPT, "text_2": [PROMPT]}] for path in ("/v1/score", "/score")},
}
"""Bodies that are right, but for the model, by path."""

JSON_PATHS = sorted(path for path, endpoint in ENDPOINTS.items() if endpoint.media != FORM)
FORM_PATHS = sorted(path for path, endpoint in ENDPOINTS.items() if endpoint.media == FORM)

_KEYS = [
    "model",
    "messages",
    "role",
    "content",
    "type",
    "text",
    "stream",
    "n",
    "max_tokens",
    "prompt",
    "input",
    "tools",
]
numbers = st.sampled_from(
    ["0", "-0", "-1", "1e400", "-1e-400", "9" * 40, "1." + "0" * 40, "1E5", "18446744073709551616", "1" * 5000, "0.5"]
)
"""Numbers that JSON allows. No language agrees with another on what they are."""
_INVALID = ["NaN", "Infinity", "-Infinity", "nul", "'a'", '"\\ud800"', '"\\udc00\\ud800"', '"\\x"', "01", "", "[", '"']
_strings = st.text(max_size=8).map(json.dumps) | st.sampled_from(
    ['"\\u0000"', '""', '"tiny"', '"user"', '"\\ud83d\\ude00"']
)
_deep = st.sampled_from(["[" * n + "]" * n for n in (30, 600, 3000, 100_000)] + ['{"a":' * 3000 + "1" + "}" * 3000])


def _members(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects as text, which may say a key twice, or spell it in an odd way."""
    keys = st.sampled_from([*map(json.dumps, _KEYS), '"mod\\u0065l"', '"stre\\u0061m"']) | _strings
    members = st.lists(st.tuples(keys, values).map(":".join), max_size=5)
    return members.map(lambda parts: "{" + ",".join(parts) + "}")


values = st.recursive(
    st.sampled_from(["null", "true", "false", *_INVALID]) | numbers | _strings | _deep,
    lambda inner: st.lists(inner, max_size=4).map(lambda parts: "[" + ", ".join(parts) + "]") | _members(inner),
    max_leaves=8,
)
"""JSON texts, and nearly JSON."""


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A JSON text, with what may stand around it."""
    before = draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf", b" \n", b"\xff\xfe", b"\0"]))
    after = draw(st.sampled_from([b"", b"", b"", b"\0", b"}", b" ", b"{}"]))
    return before + draw(values | _members(values)).encode() + after


_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3),
    max_leaves=5,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in *value* with each of its keys or indices."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return []
    return [(value, key) for key, _ in inner] + [place for _, child in inner for place in _places(child)]


@st.composite
def nearly_valid(draw: st.DrawFn, path: str) -> bytes:
    """A body for *path* with some values of another type, missing, or there although no one asked."""
    body: dict[str, Any] = json.loads(json.dumps({"model": "tiny", **draw(st.sampled_from(VALID[path]))}))
    for _ in range(draw(st.integers(0, 3))):
        places = _places(body)
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["change", "change", "drop", "add", "wrap"])):
            case "change":
                container[key] = draw(_plain)
            case "drop":
                del container[key]
            case "wrap":
                container[key] = [container[key]]
            case _ if isinstance(container, dict):
                container[draw(st.sampled_from(_KEYS) | st.text(max_size=5))] = draw(_plain)
            case _:
                container.insert(key, draw(_plain))
    return json.dumps(body, ensure_ascii=draw(st.booleans())).encode("utf-8", "replace")


def form(*fields: tuple[bytes, bytes], boundary: bytes = b"b0") -> bytes:
    """A multipart body; a name that ends in ``;f`` stands for a file."""
    parts = []
    for name, value in fields:
        plain = name.removesuffix(b";f")
        file = b'; filename="a.wav"' if plain != name else b""
        parts.append(
            b'--%b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % (boundary, plain, file, value)
        )
    return b"".join(parts) + b"--" + boundary + b"--\r\n"


FORM_TYPE = b"multipart/form-data; boundary=b0"
FORM_BODY = form(
    (b"model", b"tiny"), (b"prompt", PROMPT.encode()), (b"stream", b"false"), (b"file;f", b"RIFF" + bytes(40))
)
_FORM_PIECES = [
    b"\r\n",
    b"--b0",
    b"--b0--",
    b"--",
    b'name="model"',
    b'name="',
    b"; filename*=utf-8''a",
    b"\r\n\r\n",
    b'"',
    b"\0",
    b"\xff",
    b"Content-Disposition: form-data",
    b"model",
    b"stream",
    b"true",
    b": ",
    b";",
    b"\n",
]
_BOUNDARIES = [
    b"multipart/form-data",
    b"multipart/form-data; boundary=",
    b'multipart/form-data; boundary="b0',
    b"multipart/form-data; boundary=b1",
    b"multipart/form-data; boundary*=utf-8''b0",
    b"multipart/form-data; boundary*0=b; boundary*1=0",
    b"multipart/form-data; boundary=" + b"b" * 71,
    b"multipart/form-data; boundary*" + b"1" * 5000 + b"=b0",
    b"multipart/form-data; boundary=b0; boundary=b1",
    b"multipart/form-data;;; boundary=b0",
    b"multipart/form-data; boundary*=nonsense''%ff",
    b"MULTIPART/FORM-DATA; BOUNDARY=b0",
    b"multipart/mixed; boundary=b0",
    b"multipart/form-data; boundary=\xe4",
]
form_types = st.just(FORM_TYPE) | st.sampled_from(_BOUNDARIES)


@st.composite
def damaged(draw: st.DrawFn, data: bytes, pieces: list[bytes]) -> bytes:
    """*data* with bytes replaced, dropped and put in, mostly by some of *pieces*."""
    piece = st.sampled_from([*pieces, b""]) | st.binary(min_size=1, max_size=3)
    for place, removed, added in draw(st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 6), piece), max_size=4)):
        at = place % (len(data) + 1)
        data = data[:at] + added + data[at + removed :]
    return data


forms = damaged(FORM_BODY, _FORM_PIECES)
