import copy
from typing import Any

import pytest

from gateway.backends.bedrock.unsupported_parameters import reduce, without

PAYLOAD: dict[str, Any] = {
    "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    "inferenceConfig": {"maxTokens": 10, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
    "additionalModelRequestFields": {"top_k": 5, "reasoning_effort": "low"},
    "toolConfig": {
        "tools": [
            {"toolSpec": {"name": "f", "inputSchema": {"json": {}}, "strict": True}},
            {"toolSpec": {"name": "g", "inputSchema": {"json": {}}}},
        ],
        "toolChoice": {"tool": {"name": "f"}},
    },
    "outputConfig": {
        "textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": '{"type":"object"}'}}}
    },
    "requestMetadata": {"user": "u"},
    "serviceTier": {"type": "flex"},
}


@pytest.mark.parametrize(
    ("field", "gone", "dropped"),
    [
        ("temperature", ("inferenceConfig", "temperature"), "temperature"),
        ("inferenceConfig.topP", ("inferenceConfig", "topP"), "top_p"),
        ("stopSequences", ("inferenceConfig", "stopSequences"), ""),
        ("toolConfig.toolChoice.tool", ("toolConfig", "toolChoice"), "tool_choice"),
        ("toolChoice", ("toolConfig", "toolChoice"), "tool_choice"),
        ("outputConfig.textFormat", ("outputConfig",), "response_format"),
        ("additionalModelRequestFields.top_k", ("additionalModelRequestFields", "top_k"), "top_k"),
        ("reasoning_effort", ("additionalModelRequestFields", "reasoning_effort"), "reasoning_effort"),
        ("requestMetadata", ("requestMetadata",), "metadata"),
        ("serviceTier.type", ("serviceTier",), "service_tier"),
    ],
)
def test_a_field_is_taken_away(field: str, gone: tuple[str, ...], dropped: str) -> None:
    """Under any of the names that Bedrock gives it; the rest stays, but for words that say the same."""
    reduced = reduce(PAYLOAD, field)
    expected = copy.deepcopy(PAYLOAD)
    inner = expected
    for name in gone[:-1]:
        inner = inner[name]
    del inner[gone[-1]]

    assert reduced is not None
    assert (expected, dropped) == (
        {name: value for name, value in reduced.payload.items() if name != "system"},
        reduced.dropped,
    )


def test_stops_become_the_gateways() -> None:
    reduced = reduce(PAYLOAD, "stopSequences")

    assert reduced is not None
    assert ("END",) == reduced.stops


def test_a_choice_and_a_schema_are_said_in_words_instead() -> None:
    payload = PAYLOAD | {"system": [{"text": "Be brief."}]}
    chosen, formed = without(payload, "toolConfig.toolChoice.tool"), without(payload, "outputConfig")

    assert chosen is not None
    assert formed is not None
    assert [{"text": "Be brief."}, {"text": "You must call the tool f."}] == chosen["system"]
    assert formed["system"][1]["text"].endswith('\n{"type":"object"}')


def test_strict_is_taken_from_every_tool() -> None:
    reduced = without(PAYLOAD, "toolConfig.tools[0].toolSpec.strict")

    assert reduced is not None
    assert [{"name", "inputSchema"}] * 2 == [tool["toolSpec"].keys() for tool in reduced["toolConfig"]["tools"]]
    assert {"tool": {"name": "f"}} == reduced["toolConfig"]["toolChoice"]


def test_the_models_own_fields_go_with_their_last() -> None:
    reduced = without({"messages": [], "additionalModelRequestFields": {"top_k": 5}}, "top_k")

    assert {"messages": []} == reduced


@pytest.mark.parametrize(
    "field",
    [
        "messages",
        "messages[0].content[1].image",
        "messages.0.temperature",
        "system",
        "toolConfig",
        "toolConfig.tools",
        "maxTokens",
        "inferenceConfig",
        "somethingElse",
        "",
    ],
)
def test_what_the_question_is_made_of_stays(field: str) -> None:
    assert without(PAYLOAD, field) is None


@pytest.mark.parametrize("field", ["temperature", "toolChoice", "outputConfig", "top_k", "strict", "serviceTier"])
def test_what_is_not_there_cannot_be_taken_away(field: str) -> None:
    reduced = without(PAYLOAD, field)

    assert reduced is not None
    assert without(reduced, field) is None


def test_the_payload_itself_stays_as_it_is() -> None:
    before = copy.deepcopy(PAYLOAD)
    for field in ("temperature", "toolChoice", "outputConfig", "top_k", "strict", "serviceTier"):
        without(PAYLOAD, field)

    assert before == PAYLOAD
