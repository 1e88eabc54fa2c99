import pytest
from fastapi import FastAPI

from gateway.api.docs_page import docs_router
from tests.gateway.asgi import Caller


@pytest.fixture
def api() -> FastAPI:
    found = FastAPI(docs_url=None, redoc_url=None)
    found.include_router(docs_router(title="Warmgate", openapi_url="/openapi.json"))
    return found


async def test_the_page_loads_everything_from_the_gateway(api: FastAPI) -> None:
    answer = Caller(method="GET", path="/docs")
    await answer.call(api)

    assert 200 == answer.status
    assert b"http" not in answer.body.replace(b"http-equiv", b"")
    assert b'src="/docs/swagger-ui-bundle.js"' in answer.body


@pytest.mark.parametrize(
    ("path", "media_type", "part"),
    [
        ("/docs/swagger-ui-bundle.js", b"text/javascript; charset=utf-8", b"SwaggerUIBundle"),
        ("/docs/swagger-ui.css", b"text/css; charset=utf-8", b".swagger-ui"),
        ("/docs/start.js", b"text/javascript; charset=utf-8", b'url: "/openapi.json"'),
    ],
)
async def test_what_the_page_loads_is_there(api: FastAPI, path: str, media_type: bytes, part: bytes) -> None:
    answer = Caller(method="GET", path=path)
    await answer.call(api)

    assert 200 == answer.status
    assert media_type == answer.headers[b"content-type"]
    assert part in answer.body


async def test_no_script_of_another_origin_may_run(api: FastAPI) -> None:
    answer = Caller(method="GET", path="/docs")
    await answer.call(api)

    assert b"script-src 'self';" in answer.headers[b"content-security-policy"]
