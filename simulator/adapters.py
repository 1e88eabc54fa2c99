"""LoRA adapters of a worker, and the routes that load and unload adapters at runtime.

vLLM serves ``/v1/load_lora_adapter`` and ``/v1/unload_lora_adapter`` if ``VLLM_ALLOW_RUNTIME_LORA_UPDATING`` is set
(vllm/entrypoints/serve/lora). SGLang serves the same routes without ``/v1``. The simulated worker finds an adapter
under every path except paths that end in ``/missing``. An adapter gives the same answers as the base model, but its
cache blocks are separate.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import overload

import msgspec

from simulator.bodies import decode_body
from simulator.errors import ApiError, Dialect
from simulator.exchange import HttpExchange
from simulator.routes import RouteTable

_MISSING = "/missing"


class _Load(msgspec.Struct, frozen=True):
    lora_name: str
    lora_path: str


class _Unload(msgspec.Struct, frozen=True):
    lora_name: str


class Adapters(Sequence[str]):
    """Names of the loaded LoRA adapters, in the order in which they were loaded."""

    def __init__(self, names: Iterable[str] = (), *, model: str = "") -> None:
        """Start without adapters. *model* is the base model, whose name no adapter is allowed to have."""
        self._names = list(names)
        self._model = model

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._names[index]

    def add(self, name: str) -> None:
        """Add a LoRA adapter. Raises `ApiError` if its name is already loaded or is the name of the base model."""
        if name in self._names:
            raise ApiError(
                400, f"The lora adapter '{name}' has already been loaded.", param="lora_name", kind="InvalidUserInput"
            )
        if name == self._model:
            raise ApiError(400, f"The lora adapter '{name}' conflicts with a served base model.", param="lora_name")
        self._names.append(name)

    def remove(self, name: str) -> None:
        """Remove a LoRA adapter. Raises `ApiError` if the adapter is not loaded."""
        if name not in self._names:
            raise ApiError(404, f"The lora adapter '{name}' cannot be found.", param="lora_name")
        self._names.remove(name)


class AdapterLoading:
    """Routes that load and unload LoRA adapters. A load takes *load_s* seconds and does not block other requests."""

    def __init__(self, adapters: Adapters, *, load_s: float, dialect: Dialect) -> None:
        self._adapters = adapters
        self._load_s = load_s
        self._dialect = dialect

    def routes(self) -> RouteTable:
        prefix = "" if self._dialect == "sglang" else "/v1"
        return {
            f"{prefix}/load_lora_adapter": {"POST": self._load},
            f"{prefix}/unload_lora_adapter": {"POST": self._unload},
        }

    async def _load(self, exchange: HttpExchange) -> None:
        exchange.require_json()
        asked = decode_body(await exchange.body(), _Load)
        await asyncio.sleep(self._load_s)
        if asked.lora_path.endswith(_MISSING):
            status = 400 if self._dialect == "sglang" else 404
            raise ApiError(status, f"No adapter found for '{asked.lora_path}'", param="lora_path")
        self._adapters.add(asked.lora_name)
        await self._tell(exchange, f"Success: LoRA adapter '{asked.lora_name}' added successfully.")

    async def _unload(self, exchange: HttpExchange) -> None:
        exchange.require_json()
        asked = decode_body(await exchange.body(), _Unload)
        self._adapters.remove(asked.lora_name)
        await self._tell(exchange, f"Success: LoRA adapter '{asked.lora_name}' removed successfully.")

    async def _tell(self, exchange: HttpExchange, text: str) -> None:
        if self._dialect == "sglang":
            await exchange.reply_json({"success": True, "loaded_adapters": dict.fromkeys(self._adapters, "")})
        else:
            await exchange.reply(200, text.encode(), b"text/plain; charset=utf-8")
