"""Pages with Swagger UI for an OpenAPI document. The gateway itself serves all scripts and styles."""

from collections.abc import Callable
from importlib import resources

from fastapi import APIRouter, Response

_HEADERS = {
    # Swagger UI sets styles of elements and shows pictures that are part of its style sheet.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
"""Files of Swagger UI that the gateway serves, with their media types."""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{prefix}/docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{prefix}/docs/swagger-ui-bundle.js"></script>
<script src="{prefix}/docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({{
  url: "{openapi_url}",
  dom_id: "#swagger-ui",
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
}});
"""


def docs_router(*, title: str, openapi_url: str, prefix: str = "") -> APIRouter:
    """Return routes for the page *prefix* + ``/docs``, which shows the OpenAPI document at *openapi_url*.

    A key that a reader enters stays in the reader's browser tab, and is sent to this gateway only.
    """
    router = APIRouter(include_in_schema=False)
    page = _PAGE.format(title=title, prefix=prefix)
    start = _START.format(openapi_url=openapi_url)

    @router.get(f"{prefix}/docs")
    async def docs() -> Response:
        return Response(page, media_type="text/html", headers=_HEADERS)

    @router.get(f"{prefix}/docs/start.js")
    async def start_script() -> Response:
        return Response(start, media_type="text/javascript", headers=_HEADERS)

    for name, media_type in _ASSETS.items():
        router.add_api_route(f"{prefix}/docs/{name}", _asset(name, media_type), methods=["GET"])
    return router


def _asset(name: str, media_type: str) -> Callable[[], Response]:
    def read() -> Response:
        content = resources.files("fastapi_swagger.resources").joinpath(name).read_bytes()
        return Response(content, headers={**_HEADERS, "cache-control": "max-age=86400", "content-type": media_type})

    return read
