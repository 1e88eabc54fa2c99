"""The words in which engines are reported adapters, and report them."""

import json

import pytest

from gateway.backends.engine_metrics import EngineKind
from gateway.models.adapters.wire import (
    adapters_in,
    is_loaded_now,
    is_unloaded_now,
    load_call,
    says_unknown,
    unload_call,
)

VLLM_404 = b'{"error":{"message":"The model `poet` does not exist.","type":"NotFoundError","param":"model","code":404}}'
SGLANG_400 = (
    b'{"object":"error","message":"The following requested LoRA adapters are not loaded: {\'poet\'}","code":400}'
)


@pytest.mark.parametrize(
    ("engine", "paths"),
    [
        (EngineKind.VLLM, (b"/v1/load_lora_adapter", b"/v1/unload_lora_adapter")),
        (None, (b"/v1/load_lora_adapter", b"/v1/unload_lora_adapter")),
        (EngineKind.SGLANG, (b"/load_lora_adapter", b"/unload_lora_adapter")),
    ],
)
def test_each_engine_has_its_routes(engine: EngineKind | None, paths: tuple[bytes, bytes]) -> None:
    load, unload = load_call("poet", "/adapters/poet", engine), unload_call("poet", engine)

    assert paths == (load.path, unload.path)
    assert {"lora_name": "poet", "lora_path": "/adapters/poet"} == json.loads(load.body)
    assert {"lora_name": "poet"} == json.loads(unload.body)
    assert [(b"content-type", b"application/json")] == load.headers


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b"Success: LoRA adapter 'poet' added successfully.", True),
        (400, b"The lora adapter 'poet' has already been loaded.", True),
        (400, b"The lora adapter 'poet' conflicts with a served base model.", False),
        (404, b"No adapter found for '/poet'", False),
        (500, b"already", False),
    ],
)
def test_whether_it_is_loaded(status: int, body: bytes, expected: bool) -> None:
    """Somebody else may have had the same thought."""
    assert expected is is_loaded_now(status, body)


def test_whether_it_is_unloaded() -> None:
    assert [True, True, False] == [is_unloaded_now(status) for status in (200, 404, 500)]


def test_adapters_are_models_with_a_parent() -> None:
    cards = b'{"object":"list","data":[{"id":"tiny","parent":null},{"id":"poet","parent":"tiny"},{"id":"x"}]}'

    assert ["poet"] == adapters_in(cards)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"data":[{"parent":"tiny"}]}', b"\xff", b'{"data":[{"id":"po'])
def test_a_list_that_cannot_be_read_says_nothing(body: bytes) -> None:
    """It does not say that the worker has none."""
    assert None is adapters_in(body)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, VLLM_404, True),
        (400, SGLANG_400, True),
        (404, b'{"error":{"message":"Response with id resp_1 not found."}}', False),
        (400, b'{"error":{"message":"max_tokens: poet is not an integer"}}', False),
        (500, VLLM_404, False),
        (200, b"poet does not exist", False),
    ],
)
def test_a_refusal_for_want_of_the_adapter(status: int, body: bytes, expected: bool) -> None:
    """Other refusals have the same status."""
    assert expected is says_unknown(status, body, "poet", "tiny:poet")
