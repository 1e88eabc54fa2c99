"""The models, by the names under which callers ask."""

from collections.abc import Iterator, Mapping

from gateway.models.model import Model
from gateway.models.model_names import ModelNames
from gateway.models.routes.route import Route
from gateway.models.routes.routes import RouteTable
from gateway.protocol.errors import UnknownModel


class Models:
    """All configured models, by name, alias or pattern."""

    def __init__(self, models: Mapping[str, Model] | None = None, names: ModelNames | None = None) -> None:
        """*models* may be set later, by `replace`."""
        self._models = models or {}
        self._names = names or ModelNames([])
        self.routes: RouteTable | None = None
        """Names that stand for several models; None: no name does, so requests need not look."""

    def __iter__(self) -> Iterator[Model]:
        """Iterate over the current models, even if they are replaced meanwhile."""
        return iter(self._models.values())

    def replace(self, models: Mapping[str, Model], names: ModelNames, routes: RouteTable | None = None) -> None:
        """Serve only *models* from now on. *names* also resolves the names of *routes*."""
        self._models = models
        self._names = names
        self.routes = routes

    def ids(self) -> list[str]:
        """Return names and exact aliases, without patterns."""
        return self._names.exact

    def get(self, name: str) -> Model | None:
        """Return the model that is configured as *name*, if there is one."""
        return self._models.get(name)

    def find(self, name: str) -> Model:
        """Return the model that *name* resolves to.

        Raises:
            UnknownModel: there is no such model.
        """
        known = self._names.resolve(name)
        model = None if known is None else self._models.get(known)
        if model is None:
            raise UnknownModel(f"The model {name[:100]!r} does not exist or is not served here", param="model")
        return model

    def route(self, name: str) -> Route | None:
        """Return the route that *name* resolves to, if it is one."""
        known = None if self.routes is None else self._names.resolve(name)
        return None if known is None or self.routes is None else self.routes.get(known)

    def only(self) -> str | None:
        """Return the name of the only model; None if there are several models, or none, or a route beside it."""
        return next(iter(self._models)) if len(self._models) == 1 and self.routes is None else None

    def configured_name(self, name: str) -> str:
        """Return the name of the model or route that *name* resolves to; *name* itself if it resolves to nothing."""
        return self._names.resolve(name) or name
