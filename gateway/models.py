"""The models that are served, by the names under which callers may ask."""

from collections.abc import Iterator, Mapping

from gateway.errors import UnknownModel
from gateway.model import Model
from gateway.model_names import ModelNames
from gateway.rollout.route import Route
from gateway.rollout.routes import Routes


class Models:
    """The registry: every configured model, found by name, alias or pattern."""

    def __init__(self, models: Mapping[str, Model] | None = None, names: ModelNames | None = None) -> None:
        """None are served until they are put in their place."""
        self._models = models or {}
        self._names = names or ModelNames([])
        self.routes: Routes | None = None
        """Names that stand for several models; None: there are none, and no request has to look."""

    def __iter__(self) -> Iterator[Model]:
        """The models of this moment, also if they are replaced meanwhile."""
        return iter(self._models.values())

    def replace(self, models: Mapping[str, Model], names: ModelNames, routes: Routes | None = None) -> None:
        """Serve *models* from this moment on, and no others. *names* knows those of *routes*, too."""
        self._models = models
        self._names = names
        self.routes = routes

    def ids(self) -> list[str]:
        """Names and exact aliases under which clients may ask."""
        return self._names.exact

    def get(self, name: str) -> Model | None:
        """The model that is configured as *name*, if there is one."""
        return self._models.get(name)

    def find(self, name: str) -> Model:
        """The model that answers for *name*.

        Raises:
            UnknownModel: none does.
        """
        known = self._names.resolve(name)
        model = None if known is None else self._models.get(known)
        if model is None:
            raise UnknownModel(f"The model {name[:100]!r} does not exist or is not served here", param="model")
        return model

    def route(self, name: str) -> Route | None:
        """The route that *name* means, if it means one."""
        known = None if self.routes is None else self._names.resolve(name)
        return None if known is None or self.routes is None else self.routes.get(known)

    def only(self) -> str | None:
        """The name of the one model that is served; None if there are several, or none, or a route beside it."""
        return next(iter(self._models)) if len(self._models) == 1 and self.routes is None else None

    def configured_name(self, name: str) -> str:
        """That of the model or route which *name* means; *name* itself where it means nothing."""
        return self._names.resolve(name) or name
