"""Registry of all models, by the names that callers use for them."""

from collections.abc import Iterator, Mapping

from gateway.models.model import Model
from gateway.models.model_names import ModelNames
from gateway.models.rewrites import oldest
from gateway.models.routes.route import Route
from gateway.models.routes.routes import RouteTable
from gateway.protocol.errors import UnknownModel
from gateway.tenancy.teams.route_weights import RouteWeights


class Models:
    """Registry of all configured models, by name, alias or pattern."""

    def __init__(self, models: Mapping[str, Model] | None = None, names: ModelNames | None = None) -> None:
        """Create a registry of *models*. Without *models*, call `replace` later."""
        self._models = models or {}
        self._names = names or ModelNames([])
        self.has_rewrites = any(model.rewrites is not None for model in self._models.values())
        """Whether rules may replace model names of requests."""
        self._weights: Mapping[str, RouteWeights] = {}
        self.routes: RouteTable | None = None
        """Routing table of names that stand for several models, or None if there are no such names."""

    def __iter__(self) -> Iterator[Model]:
        """Iterate over the current models. The models can be replaced safely during the iteration."""
        return iter(self._models.values())

    def replace(self, models: Mapping[str, Model], names: ModelNames, routes: RouteTable | None = None) -> None:
        """Serve only *models* from now on. *names* also maps the names of *routes*."""
        self._models = models
        self._names = names
        self.has_rewrites = any(model.rewrites is not None for model in models.values())
        if routes is not None:
            routes.use_weights(self._weights)
        self.routes = routes

    def use_weights(self, stored: Mapping[str, RouteWeights]) -> None:
        """Use the weights in *stored*, by route name, for current and future routes. Other routes use the settings."""
        self._weights = stored
        if self.routes is not None:
            self.routes.use_weights(stored)

    def ids(self) -> list[str]:
        """Return the names and aliases of all models, without patterns."""
        return self._names.exact

    def get(self, name: str) -> Model | None:
        """Return the model with the configured name *name*, or None."""
        return self._models.get(name)

    def find(self, name: str) -> Model:
        """Return the model to which the name, alias or pattern *name* resolves.

        Raises:
            UnknownModel: if there is no such model.
        """
        known = self._names.resolve(name)
        model = None if known is None else self._models.get(known)
        if model is None:
            raise UnknownModel(f"The model {name[:100]!r} does not exist or is not served here", param="model")
        return model

    def rewritten(self, name: str, prompt: bytes = b"") -> str:
        """Return the name that replaces the model name *name* of a request with the rendered prompt *prompt*. It is
        *name* itself without a rule.

        The rules of the model to which *name* resolves apply, or those of the only model. A name that resolves to no
        model may have a rule of any model.
        """
        if not self.has_rewrites:
            return name
        known = self._names.resolve(name) or self.only()
        if known is None:
            found = oldest(name, ((each.name, each.rewrites) for each in self if each.rewrites is not None))
            return name if found is None else found[0].target(found[1], prompt)
        model = self._models.get(known)
        rewrites = None if model is None else model.rewrites
        rule = None if rewrites is None else rewrites.rules.rule(name)
        return name if rewrites is None or rule is None else rewrites.target(rule, prompt)

    def route(self, name: str) -> Route | None:
        """Return the route to which *name* resolves, or None if *name* is not a route."""
        known = None if self.routes is None else self._names.resolve(name)
        return None if known is None or self.routes is None else self.routes.get(known)

    def only(self) -> str | None:
        """Return the name of the only model, or None if there are other models or routes."""
        return next(iter(self._models)) if len(self._models) == 1 and self.routes is None else None

    def configured_name(self, name: str) -> str:
        """Return the configured name to which *name* resolves, or *name* itself if it is unknown."""
        return self._names.resolve(name) or name
