"""Error for an endpoint that the engine of a model does not have.

Engines only have routes that their model supports, and answer "Not Found" to all others. This error names the model,
the endpoint, and the endpoint to use instead.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.protocol.endpoints.faults import Fault, reason_in

STATUSES: Final = frozenset({404, 405})
CODE: Final = "endpoint_not_supported"

_BARE = frozenset({"", "Not Found", "Method Not Allowed"})
"""Error reasons without information, such as the default texts of FastAPI."""

_GENERATES = "A model that generates text has /v1/chat/completions and /v1/completions"
_POOLS = "A pooling model has, depending on its kind, /v1/embeddings, /v1/rerank, /v1/score, /classify or /pooling"
_OTHER_SHAPE = "Use /v1/chat/completions, which all engines of models that generate text have."

_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "/v1/embeddings",
                "/v2/embed",
                "/v1/rerank",
                "/rerank",
                "/v2/rerank",
                "/v1/score",
                "/score",
                "/pooling",
                "/classify",
            ),
            f"{_GENERATES}. Embeddings, rankings, scores and classes need a pooling model.",
        ),
        **dict.fromkeys(
            ("/v1/chat/completions", "/v1/completions"), f"{_POOLS}. Text needs a model that generates text."
        ),
        **dict.fromkeys(("/v1/responses", "/v1/messages", "/v1/chat/completions/batch"), _OTHER_SHAPE),
        **dict.fromkeys(("/v1/audio/transcriptions", "/v1/audio/translations"), "Audio needs a speech model."),
    }
)


def missing_endpoint(path: str, model: str, status: int, body: bytes) -> Fault | None:
    """Return the fault to report if *status* and *body* only mean that the route does not exist, or None.

    They may say something else, for instance that the model is unknown. Takes O(bytes).
    """
    if status not in STATUSES or reason_in(body) not in _BARE:
        return None
    instead = _INSTEAD.get(path, "")
    message = f"The model {model!r} does not serve {path}: its engine has no such endpoint. {instead}".rstrip()
    return Fault(404, message, "invalid_request_error", None, CODE)
