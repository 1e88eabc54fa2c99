"""The judge has to find faults before it may find none."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.backends.bedrock.chats import PNG
from tests.gateway.backends.bedrock.shapes import faults

GOOD: dict[str, Any] = {
    "system": [{"text": "Be brief."}],
    "messages": [
        {"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "4"}]}}]},
    ],
    "toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]},
    "inferenceConfig": {"maxTokens": 10, "temperature": 0.5},
}


def test_a_good_request_has_no_faults() -> None:
    assert [] == faults(GOOD)


def _call(body: dict[str, Any]) -> Any:
    return body["messages"][1]["content"][0]["toolUse"]


def _document(body: dict[str, Any], name: str) -> None:
    source = {"bytes": PNG}
    body["messages"][0]["content"] = [{"document": {"format": "pdf", "name": name, "source": source}}, {"text": "x"}]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda body: body.update(model="x"), "Unknown parameter"),
        (lambda body: body["system"][0].update(guardContent={"text": {"text": "x"}}), "Can only set one"),
        (lambda body: body["messages"].pop(), "last word"),
        (lambda body: body["messages"].pop(1), "do not alternate"),
        (lambda body: body["messages"][2].update(content=[{"text": "x"}]), "the calls before it are"),
        (lambda body: body["messages"][0]["content"][0].update(text=" "), "blank"),
        (lambda body: body["messages"][0].update(content=[]), "empty"),
        (lambda body: _call(body).update(name="a b"), "has to match"),
        (lambda body: _call(body).update(name="x" * 65), "has a size of 65"),
        (lambda body: _call(body).update(input=[]), "the input of a call is no object"),
        (lambda body: body.pop("toolConfig"), "no toolConfig"),
        (lambda body: body["toolConfig"]["tools"].append(body["toolConfig"]["tools"][0]), "the same name"),
        (lambda body: body["toolConfig"].update(toolChoice={"tool": {"name": "g"}}), "the choice is a tool"),
        (lambda body: body["inferenceConfig"].update(temperature=1.1), "has a size of 1.1"),
        (lambda body: body["inferenceConfig"].pop("maxTokens"), "maxTokens is not there"),
        (lambda body: body.update(serviceTier={"type": "scale"}), "none of"),
        (lambda body: body.update(requestMetadata={"a": "ä"}), "has to match"),
        (lambda body: body.update(requestMetadata={str(n): "" for n in range(17)}), "has a size of 17"),
        (lambda body: _document(body, "a_b"), "bad names"),
        (lambda body: body["messages"][0]["content"][1]["image"].update(format="gif"), "encoded twice"),
    ],
)
def test_a_fault_is_found(spoil: Callable[[dict[str, Any]], object], fault: str) -> None:
    body = copy.deepcopy(GOOD)
    spoil(body)

    assert fault in "; ".join(faults(body))
