"""Query parameter that selects a served model, and a page of its workers."""

from typing import Annotated

from pydantic import Field

from cache_index import WorkerId
from gateway.api.admin_v1.paging import PageQuery, page_of
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.protocol.errors import UnknownModel

MAX_NAME = 1000


class ModelWorkersQuery(PageQuery):
    model: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None = Field(
        default=None, description="configured name of the model; omit it for the first configured model"
    )


def named_model(models: Models, name: str | None) -> Model:
    """Return the model with the configured name *name*, or the first model if *name* is None.

    Raises:
        UnknownModel: if there is no such model.
    """
    model = next(iter(models), None) if name is None else models.get(name)
    if model is None:
        shown = "" if name is None else f" {name[:100]!r}"
        raise UnknownModel(f"The model{shown} is not configured; give its name, not an alias", param="model")
    return model


def names(models: Models) -> tuple[str, ...]:
    """Return the configured names of all *models*."""
    return tuple(model.name for model in models)


def workers_of(model: Model, page: PageQuery) -> tuple[list[WorkerId], str | None]:
    """Return a page of the workers of *model*, in order of their IDs, and the cursor of the next page."""
    return page_of({worker: worker for worker in sorted(each.id for each in model.fleet)}, page)
