"""HTML templates of the console. Every value is escaped."""

from collections.abc import Mapping
from typing import Any

import jinja2

from gateway.console.formats import FORMATS


class Templates:
    """Templates in the folder `templates`. *globals_* are values that every template can use."""

    def __init__(self, globals_: Mapping[str, Any]) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("gateway.console"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(FORMATS)
        self._environment.globals.update(globals_)

    def render(self, name: str, context: Mapping[str, Any]) -> str:
        """Return the HTML of the template *name* with the values *context*."""
        return self._environment.get_template(name).render(context)
