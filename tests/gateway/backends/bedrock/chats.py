"""Chat bodies as clients of OpenAI's API send them, or might: hypothesis draws them."""

import base64
import json
from typing import Any

from hypothesis import strategies as st

from gateway.backends.bedrock.parameters import PARAMETERS

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\1\0\0\0\1").decode()
PDF = base64.b64encode(b"%PDF-1.7 a").decode()

# Few of each, so that they meet: names that need a change and those that they might be changed to.
_NAMES = (
    "add",
    "get weather",
    "get_weather",
    "functions.add",
    "functions_add",
    "x" * 70,
    "wetter_für",
    "",
    "a/b",
    "a.b",
)
_IDS = ("call_0", "call_1", "chatcmpl-tool-1", "functions.add:0", "c#1", "c_1", "i" * 80, "", None)
_ARGUMENTS = ('{"a": 1}', "", "null", "{}", "[1, 2]", '"x"', '{"a":', "3", '{"b": {"c": [null]}}')

texts = st.sampled_from(["hello", " ", "", "\n", "größe 🙂", "two\nlines", "\u00a0", "0"])
names = st.sampled_from([name for name in _NAMES if name])
texts_or_parts = texts | st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, texts) | st.just({"type": "refusal", "refusal": "No."}),
    max_size=3,
)
media = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": f"data:image/jpg;base64,{PNG}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "file", "file": {"filename": "a_b  (1).pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        {"type": "file", "file": {"file_data": f"data:text/plain;base64,{PDF}"}},
    ]
)
parts = st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts) | media, max_size=3)

calls = st.fixed_dictionaries(
    {
        "id": st.sampled_from(_IDS),
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": st.sampled_from(_NAMES), "arguments": st.sampled_from(_ARGUMENTS)}),
    }
)
messages = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer"]), "content": texts_or_parts}),
    st.fixed_dictionaries({"role": st.just("user"), "content": texts | parts}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": texts_or_parts | st.none()},
        optional={"tool_calls": st.lists(calls, max_size=3), "reasoning_content": texts, "refusal": texts | st.none()},
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "function_call": st.just({"name": "add", "arguments": '{"a": 1}'})}
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": st.sampled_from(_IDS), "content": texts | parts}),
    st.fixed_dictionaries({"role": st.just("function"), "name": st.sampled_from(_NAMES), "content": texts}),
)

_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}, "days": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city"],
}
schemas: st.SearchStrategy[Any] = st.sampled_from(
    [_SCHEMA, {"type": "object"}, {"anyOf": [_SCHEMA]}, {"properties": {}}, {}, None]
)
functions = st.fixed_dictionaries(
    {"name": names}, optional={"description": texts, "parameters": schemas, "strict": st.booleans()}
)
formats = st.sampled_from(
    [
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "w", "schema": _SCHEMA, "strict": True}},
        {"type": "json_schema", "json_schema": {"name": "a b", "schema": {"type": "array"}, "description": " "}},
        {"type": "json_schema", "json_schema": {"schema": {"type": "object", "additionalProperties": True}}},
    ]
)


_WORDS = ("type", "function", "name", "role", "content", "text", "url", "json_schema", "schema", "tools", "properties")
junk: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.just(0.5)
    | st.sampled_from(["", "a", "none", "data:,", "text"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def spoilt_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """A chat body with junk at one place, and in one field that it may not have."""
    body: dict[str, Any] = draw(bodies())
    body[draw(st.sampled_from(sorted(PARAMETERS)))] = draw(junk)
    place: Any = body
    while True:
        at = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not place[at] or not isinstance(place[at], dict | list) or draw(st.booleans()):
            place[at] = draw(junk)
            return body
        place = place[at]


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """A chat body that ends with the user, as one that asks for an answer does."""
    tools = draw(st.lists(functions, max_size=4))
    offered = [tool["name"] for tool in tools]
    choices: list[Any] = [None, "auto", "none"]
    if tools:
        choices += ["required", {"type": "function", "function": {"name": draw(st.sampled_from(offered))}}]
    optional = {
        "response_format": formats,
        "parallel_tool_calls": st.booleans(),
        "reasoning_effort": st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh"]),
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(-1, 1000),
        "max_tokens": st.integers(1, 100_000),
        "stop": texts | st.lists(texts, max_size=6),
        "user": texts,
        "metadata": st.dictionaries(texts, texts, max_size=20),
        "service_tier": st.sampled_from(["auto", "flex", "priority", "default", "scale"]),
        "seed": st.integers(),
        "chat_template_kwargs": st.just({"enable_thinking": True}),
    }
    body: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=optional))
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        body["tool_choice"] = draw(st.sampled_from(choices))
    last = draw(st.sampled_from(["user", "tool"]))
    body["messages"] = [
        *draw(st.lists(messages, max_size=8)),
        {"role": last, "content": draw(texts), "tool_call_id": "call_0"},
    ]
    return json.loads(json.dumps(body))  # type: ignore[no-any-return]
