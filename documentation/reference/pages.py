"""All generated reference pages by their path in the repository."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from documentation.reference import cli, errors, helm_values, http_api, metrics, routes, settings

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        f"docs/reference/{name}.md": page
        for name, page in {
            "cli": cli.page,
            "errors": errors.page,
            "helm-values": helm_values.page,
            "http-api": http_api.page,
            "metrics": metrics.page,
            "routes": routes.page,
            "settings": settings.page,
        }.items()
    }
)


def write(root: Path) -> None:
    """Write every generated page of the repository at *root*."""
    for path, page in PAGES.items():
        (root / path).write_text(page(), encoding="utf-8")
