"""`/v1/models`: what is served here, from the registry; no worker is asked, so a sick one breaks nothing."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from gateway.api.callers import AnyCaller
from gateway.errors import UnknownModel
from gateway.models import Models
from gateway.teams.caller import Caller

router = APIRouter()


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


Registry = Annotated[Models, Depends(_models)]


@router.get("/v1/models", summary="The models that are served")
async def list_models(models: Registry, caller: AnyCaller) -> dict[str, Any]:
    return {"object": "list", "data": [_card(model_id) for model_id in _ids(models, caller)]}


@router.get("/v1/models/{model_id:path}", summary="One model")
async def retrieve_model(model_id: str, models: Registry, caller: AnyCaller) -> dict[str, Any]:
    if model_id not in _ids(models, caller):
        raise UnknownModel(f"The model {model_id[:100]!r} does not exist or is not served here", param="model")
    return _card(model_id)


def _ids(models: Models, caller: Caller | None) -> list[str]:
    """What *caller* may ask for; of others it is not told that they are there."""
    if caller is None:
        return models.ids()
    return [each for each in models.ids() if caller.permits.may_use(each, models.configured_name(each))]


def _card(model_id: str) -> dict[str, Any]:
    """OpenAI's model object. A model that is configured has no date of birth."""
    return {"id": model_id, "object": "model", "created": 0, "owned_by": "warmgate"}
