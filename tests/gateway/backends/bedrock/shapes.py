"""Whether a body is one that Converse would take: the judge of everything that the adapter makes.

Two readings of AWS's own service model (botocore's validator, and a walk for the maxima, patterns and enums that it
passes over), and the rules that the model does not hold: those of Amazon Bedrock's user guide, and of its refusals.
"""

import base64
import functools
import gzip
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

_MODEL = Path(botocore.__file__).parent / "data" / "bedrock-runtime" / "2023-09-30" / "service-2.json.gz"
_MAGIC = {"png": b"\x89PNG", "jpeg": b"\xff\xd8\xff", "gif": b"GIF8", "webp": b"RIFF"}
_DOCUMENT_NAME = re.compile(r"[a-zA-Z0-9()\[\]-]+( [a-zA-Z0-9()\[\]-]+)*")


def faults(payload: dict[str, Any], model_id: str = "qwen.qwen3-32b-v1:0") -> list[str]:
    """What there is against *payload*, in words; nothing if it is a request."""
    body = {"modelId": model_id, **payload}
    report = ParamValidator().validate(body, _service_model().operation_model("Converse").input_shape)
    if report.has_errors():
        return [report.generate_report()]
    shape = _shapes()["ConverseRequest"]
    return [*_limits(body, shape, ""), *_turns(payload), *_tools(payload), *_blocks(payload), *_numbers(payload)]


@functools.cache
def _shapes() -> dict[str, Any]:
    shapes: dict[str, Any] = json.loads(gzip.decompress(_MODEL.read_bytes()))["shapes"]
    return shapes


@functools.cache
def _service_model() -> Any:
    return ServiceModel(json.loads(gzip.decompress(_MODEL.read_bytes())), "bedrock-runtime")


def _limits(value: Any, shape: dict[str, Any], where: str) -> Iterator[str]:
    """Everything in the model's JSON that bounds a value."""
    match shape["type"]:
        case "structure" if not shape.get("document"):
            for name, member in value.items():
                yield from _limits(member, _shapes()[shape["members"][name]["shape"]], f"{where}.{name}")
        case "list":
            yield from _size(len(value), shape, where)
            for at, member in enumerate(value):
                yield from _limits(member, _shapes()[shape["member"]["shape"]], f"{where}[{at}]")
        case "map":
            yield from _size(len(value), shape, where)
            for name, member in value.items():
                yield from _limits(name, _shapes()[shape["key"]["shape"]], f"{where} key {name!r}")
                yield from _limits(member, _shapes()[shape["value"]["shape"]], f"{where}.{name}")
        case "string":
            yield from _size(len(value), shape, where)
            if "pattern" in shape and not re.fullmatch(shape["pattern"], value):
                yield f"{where} is {value!r}, and has to match {shape['pattern']}"
            if "enum" in shape and value not in shape["enum"]:
                yield f"{where} is {value!r}, and none of {shape['enum']}"
        case "integer" | "float":
            yield from _size(value, shape, where)


def _size(size: float, shape: dict[str, Any], where: str) -> Iterator[str]:
    if not shape.get("min", size) <= size <= shape.get("max", size):
        yield f"{where} has a size of {size}, and has to be within {shape.get('min')} and {shape.get('max')}"


def _turns(payload: dict[str, Any]) -> Iterator[str]:
    turns = payload["messages"]
    roles = [turn["role"] for turn in turns]
    if not roles or roles[0] != "user" or roles[-1] != "user":
        yield "the user has not the first and the last word"
    if any(one == two for one, two in itertools.pairwise(roles)) or "system" in roles:
        yield "the roles do not alternate"
    called: list[str] = []
    every: list[str] = []
    for at, turn in enumerate(turns):
        uses = [block["toolUse"]["toolUseId"] for block in turn["content"] if "toolUse" in block]
        results = [block["toolResult"]["toolUseId"] for block in turn["content"] if "toolResult" in block]
        if results != called:
            yield f"turn {at} has results for {results}, and the calls before it are {called}"
        if (uses and turn["role"] != "assistant") or (results and turn["role"] != "user"):
            yield f"turn {at} has calls or results of the wrong side"
        called = uses
        every += uses
    if len(set(every)) != len(every):
        yield "two calls have the same id"


def _tools(payload: dict[str, Any]) -> Iterator[str]:
    config = payload.get("toolConfig", {})
    names = [tool["toolSpec"]["name"] for tool in config.get("tools", [])]
    if len(set(names)) != len(names):
        yield "two tools have the same name"
    chosen = config.get("toolChoice", {}).get("tool", {}).get("name")
    if chosen is not None and chosen not in names:
        yield "the choice is a tool that there is not"
    if any(tool["toolSpec"]["inputSchema"]["json"].get("type") != "object" for tool in config.get("tools", [])):
        yield "the input of a tool is no object"
    if not names and any(block.keys() & {"toolUse", "toolResult"} for block in _all_blocks(payload)):
        yield "there are tools in the history and no toolConfig"
    if any(not isinstance(block["toolUse"]["input"], dict) for block in _all_blocks(payload) if "toolUse" in block):
        yield "the input of a call is no object"


def _blocks(payload: dict[str, Any]) -> Iterator[str]:
    for turn in payload["messages"]:
        if not turn["content"]:
            yield "a turn is empty"
        if any("document" in block for block in turn["content"]) and not any("text" in it for it in turn["content"]):
            yield "a document has no text beside it"
        if any(not block["toolResult"]["content"] for block in turn["content"] if "toolResult" in block):
            yield "a tool result is empty"
    names: list[str] = []
    for block in [*_all_blocks(payload), *payload.get("system", [])]:
        if not block.get("text", "x").strip():
            yield "a text is blank"
        if "image" in block:
            data = base64.b64decode(block["image"]["source"]["bytes"], validate=True)
            if not data.startswith(_MAGIC[block["image"]["format"]]):
                yield "an image is not what its format says, or is encoded twice"
        if "document" in block:
            base64.b64decode(block["document"]["source"]["bytes"], validate=True)
            names.append(block["document"]["name"])
    if len(set(names)) != len(names) or not all(_DOCUMENT_NAME.fullmatch(name) for name in names):
        yield f"the documents have bad names: {names}"


def _numbers(payload: dict[str, Any]) -> Iterator[str]:
    if "maxTokens" not in payload["inferenceConfig"]:
        yield "maxTokens is not there"
    if len(payload["inferenceConfig"].get("stopSequences", [])) > 4:
        yield "there are more than four stop sequences"


def _all_blocks(payload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for turn in payload["messages"]:
        for block in turn["content"]:
            yield block
            yield from block.get("toolResult", {}).get("content", [])
