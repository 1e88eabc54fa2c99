"""HTTP calls that load, unload and list LoRA adapters on engines.

vLLM 0.33 (vllm/entrypoints/serve/lora, with ``VLLM_ALLOW_RUNTIME_LORA_UPDATING``) answers ``/v1/load_lora_adapter``
with 200 on success, 400 if the adapter is already loaded, and 404 if the path has no adapter. SGLang 0.5 has the same
paths without ``/v1``. Both list adapters in ``/v1/models`` as models with a ``parent``.
"""

from typing import Any

import msgspec

from gateway.backends.backend import Call
from gateway.backends.engine_metrics import EngineKind

_JSON = b"application/json"
_UNKNOWN = (b"does not exist", b"not loaded", b"not found", b"cannot be found")


class _Card(msgspec.Struct):
    id: str
    parent: str | None = None


class _Cards(msgspec.Struct):
    data: list[_Card]


_decode_cards = msgspec.json.Decoder(_Cards).decode


def load_call(name: str, path: str, engine: EngineKind | None) -> Call:
    """Return the HTTP call that loads the adapter *name* from *path*. An unknown *engine* is treated like vLLM."""
    return _call("load", {"lora_name": name, "lora_path": path}, engine)


def unload_call(name: str, engine: EngineKind | None) -> Call:
    """Return the HTTP call that unloads the LoRA adapter *name*."""
    return _call("unload", {"lora_name": name}, engine)


def is_loaded_now(status: int, body: bytes) -> bool:
    """Return whether an answer to `load_call` means that the worker has loaded the adapter, now or earlier."""
    return status == 200 or (status == 400 and b"already" in body)


def is_unloaded_now(status: int) -> bool:
    """Return whether an answer to `unload_call` means that the worker no longer has the adapter."""
    return status in {200, 404}


def adapters_in(models: bytes) -> list[str] | None:
    """Return the adapters in *models*, a response to ``/v1/models``, or None if the response is malformed."""
    try:
        cards = _decode_cards(models)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return [card.id for card in cards.data if card.parent is not None]


def says_unknown(status: int, body: bytes, *names: str) -> bool:
    """Return whether a worker refused a request because it has no adapter with a name in *names*.

    vLLM answers 404, SGLang 400. Other errors get the same status, so the name must match.
    """
    if status not in {400, 404}:
        return False
    return any(name.encode() in body for name in names) and any(each in body for each in _UNKNOWN)


def _call(verb: str, body: dict[str, Any], engine: EngineKind | None) -> Call:
    prefix = b"" if engine is EngineKind.SGLANG else b"/v1"
    return Call(
        method=b"POST",
        path=prefix + b"/" + verb.encode() + b"_lora_adapter",
        headers=[(b"content-type", _JSON)],
        body=msgspec.json.encode(body),
        streams=False,
        model=str(body["lora_name"]),
    )
