"""Render routes of vLLM (vllm/entrypoints/scale_out/render), which return the token ids of a request without running
it.

The routes get status 403 unless they are enabled by an option, as in vLLM since 0.30.
"""

from collections.abc import Mapping
from functools import partial
from uuid import uuid4

from simulator.errors import ApiError
from simulator.exchange import HttpExchange
from simulator.generation import Endpoint, Incoming
from simulator.routes import RouteTable
from simulator.sse import Json

_LISTED = "/v1/completions"  # its prompts may be many, the others have one
_RENDERED = ("/v1/chat/completions", _LISTED, "/v1/responses", "/v1/messages")


def render_routes(endpoints: Mapping[str, Endpoint], *, is_enabled: bool) -> RouteTable:
    """Return the render routes of vLLM. *endpoints* are all endpoints by path, also those that cannot be rendered."""
    return {
        f"{path}/render": {"POST": partial(_render, endpoints[path], path == _LISTED) if is_enabled else _refuse}
        for path in _RENDERED
    }


async def _refuse(exchange: HttpExchange) -> None:  # noqa: ARG001 - whatever is asked
    message = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."
    raise ApiError(403, message, kind="PermissionDeniedError")


async def _render(endpoint: Endpoint, is_listed: bool, exchange: HttpExchange) -> None:
    base_id = exchange.header(b"x-request-id") or uuid4().hex
    request, shape = endpoint.read(Incoming(await exchange.body(), exchange.content_type, base_id, 0))
    rendered: list[Json] = [
        {
            "request_id": f"{shape.id}-{number}" if is_listed else shape.id,
            "token_ids": list(prompt.ids),
            "token_offsets": None,
            "features": None,
            "content_parts": None,
            "sampling_params": {
                "n": request.choices_per_prompt,
                "max_tokens": max_tokens,
                "min_tokens": request.min_tokens,
                "ignore_eos": request.ignore_eos,
            },
            "model": request.adapter,
            "stream": request.streams,
            "stream_options": None,
            "cache_salt": request.cache_salt,
            "priority": 0,
            "kv_transfer_params": None,
        }
        for number, (prompt, max_tokens) in enumerate(zip(request.prompts, request.max_tokens, strict=True))
    ]
    await exchange.reply_json(rendered if is_listed else rendered[0])
