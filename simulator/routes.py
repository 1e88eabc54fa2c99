"""HTTP routes by path and method. A path can contain one ``{id}``."""

import re
from collections.abc import Mapping
from typing import TypeAlias

from simulator.errors import ApiError
from simulator.exchange import Handler, HttpExchange

RouteTable: TypeAlias = Mapping[str, Mapping[str, Handler]]
"""Request handlers by path and method."""


class Routes:
    """Table of HTTP routes. Plain paths are found in constant time. Paths with ``{id}`` are searched one by one."""

    def __init__(self, table: RouteTable) -> None:
        self._plain = {path: methods for path, methods in table.items() if "{id}" not in path}
        self._patterns = [
            (re.compile(re.escape(path).replace(re.escape("{id}"), "([^/]+)")), methods)
            for path, methods in table.items()
            if "{id}" in path
        ]

    def handler(self, exchange: HttpExchange) -> Handler:
        """Return the handler for *exchange*, and store the match for ``{id}`` in it. Raises `ApiError` 404 or 405."""
        handler = self._methods(exchange).get(exchange.method)
        if handler is None:
            raise ApiError(405, "Method Not Allowed")
        return handler

    def _methods(self, exchange: HttpExchange) -> Mapping[str, Handler]:
        plain = self._plain.get(exchange.path)
        if plain is not None:
            return plain
        for pattern, methods in self._patterns:
            if match := pattern.fullmatch(exchange.path):
                exchange.named_in_path = match[1]
                return methods
        raise ApiError(404, "Not Found")
