"""Engine routes that the gateway does not serve, with the routes to use instead."""

from collections.abc import Mapping
from types import MappingProxyType

_ONE_ENGINE = "send the request to a worker, because the path concerns a single engine"
_INSIDE = "send the request to a worker, because only engines use the path"

INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "/cohere/v2/chat": "use /v1/chat/completions",
        "/invocations": "use the endpoint for the kind of body, such as /v1/chat/completions",
        "/inference/v1/generate": "use /v1/completions, which accepts token ids as the prompt",
        "/v1/responses/compact": "use /v1/responses with the whole conversation or its last part",
        "/v1/responses/input_tokens": "use /tokenize or /v1/messages/count_tokens",
        "/v1/realtime": "WebSockets are not served; use /v1/audio/transcriptions",
        "/load": "/metrics reports the load of every worker",
        **dict.fromkeys(
            (
                "/v1/chat/completions/render",
                "/v1/completions/render",
                "/v1/messages/render",
            ),
            f"{_INSIDE}, or use /tokenize",
        ),
        **dict.fromkeys(
            (
                "/v1/chat/completions/derender",
                "/v1/completions/derender",
                "/inference/v1/abort_requests",
                "/kv_event_sources",
            ),
            _INSIDE,
        ),
        **dict.fromkeys(
            (
                "/tokenizer_info",
                "/server_info",
                "/start_profile",
                "/stop_profile",
                "/sleep",
                "/wake_up",
                "/is_sleeping",
                "/reset_prefix_cache",
            ),
            _ONE_ENGINE,
        ),
        **dict.fromkeys(
            ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
            "operators load adapters on the workers",
        ),
    }
)
"""Advice for routes that are not served, by path. Each text is the end of an error message."""
