"""`/v1/models`: list the models that this gateway serves.

No worker is queried, so a failing worker does not affect the route.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from gateway.api.callers import AnyCaller
from gateway.models.registry import Models
from gateway.protocol.errors import UnknownModel
from gateway.tenancy.teams.caller import Caller

router = APIRouter()


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


Registry = Annotated[Models, Depends(_models)]


def _started_at(request: Request) -> int:
    """Return the start time of this gateway in whole seconds since 1970. OpenAI clients expect a creation time."""
    started_at: int = request.app.state.started_at
    return started_at


StartedAt = Annotated[int, Depends(_started_at)]


@router.get("/v1/models", summary="List the models that the caller is allowed to use")
async def list_models(models: Registry, started_at: StartedAt, caller: AnyCaller) -> dict[str, Any]:
    shown = [_response(model_id, models, started_at) for model_id in _ids(models, caller)]
    return {"object": "list", "data": shown}


@router.get("/v1/models/{model_id:path}", summary="Return one model")
async def retrieve_model(model_id: str, models: Registry, started_at: StartedAt, caller: AnyCaller) -> dict[str, Any]:
    if model_id not in _ids(models, caller):
        raise UnknownModel(f"The model {model_id[:100]!r} does not exist or is not served here", param="model")
    return _response(model_id, models, started_at)


def _ids(models: Models, caller: Caller | None) -> list[str]:
    """Return the names of the models that *caller* is allowed to use. Other models are hidden."""
    if caller is None:
        return models.ids()
    return [each for each in models.ids() if caller.permits.may_use(each, models.configured_name(each))]


def _response(model_id: str, models: Models, created: int) -> dict[str, Any]:
    """Return a model in OpenAI's format, with vLLM's ``max_model_len`` if the context length is known."""
    card: dict[str, Any] = {"id": model_id, "object": "model", "created": created, "owned_by": "warmgate"}
    model = models.get(models.configured_name(model_id))
    if model is not None and model.context_tokens is not None:
        card["max_model_len"] = model.context_tokens
    return card
