"""FastAPI application for callers and operators, and a smaller application for a separate probes port."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from gateway.api import base_url, probes
from gateway.api import batches as batches_api
from gateway.api import explain as explain_api
from gateway.api import files as files_api
from gateway.api import models as models_api
from gateway.api import responses as responses_api
from gateway.api import usage as usage_api
from gateway.api.admin_access import AdminAccess
from gateway.api.docs_page import docs_router
from gateway.api.explain import Explainer
from gateway.api.kept_looks import KeptLooks
from gateway.api.kept_responses import KeptResponses
from gateway.api.openapi import describe
from gateway.models.registry import Models
from gateway.protocol.endpoints.faults import ANTHROPIC, OPENAI, fault_of
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.endpoints.unserved import INSTEAD
from gateway.protocol.errors import ClientError, GatewayError, MethodNotAllowed, UnknownRoute
from gateway.proxy.completed_requests import CompletedRequests
from gateway.telemetry.metrics import Metrics
from gateway.tenancy.teams.access import Access
from gateway.workers.discovery.discovery_status import DiscoveryStatus


def public_api(
    models: Models,
    metrics: Metrics,
    completed_requests: CompletedRequests,
    kept_responses: KeptResponses,
    explainer: Explainer,
    *,
    kept_looks: KeptLooks,
    stream_state: probes.StreamState,
    discovery_status: DiscoveryStatus,
    replicas: probes.ToldOfReplicas,
    admin_access: AdminAccess,
    access: Access,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
) -> FastAPI:
    """Return the application for callers and operators. Completions and `/admin/v1` are served elsewhere.

    The routes read the arguments from the state of the application.
    """
    # FastAPI's own pages load scripts from outside.
    api = FastAPI(title="Warmgate", version=version("warmgate"), lifespan=lifespan, docs_url=None, redoc_url=None)
    api.state.models = models
    api.state.stream_state = stream_state
    api.state.discovery_status = discovery_status
    api.state.replicas = replicas
    api.state.metrics = metrics
    api.state.merged_metrics = None
    api.state.completed_requests = completed_requests
    api.state.kept_responses = kept_responses
    api.state.kept_looks = kept_looks
    api.state.explainer = explainer
    api.state.admin_access = admin_access
    api.state.access = access
    api.state.files = api.state.batches = None
    routers = (
        base_url.router,
        models_api.router,
        responses_api.router,
        files_api.router,
        batches_api.router,
        usage_api.router,
        probes.router,
        explain_api.router,
        docs_router(title="Warmgate API", openapi_url="/openapi.json"),
    )
    for router in routers:
        api.include_router(router)
    describe(api, ENDPOINTS.values())
    _answer_errors(api, routers)
    return api


def probes_api(api: FastAPI) -> FastAPI:
    """Return an application that serves only the probe routes of *api*."""
    alone = FastAPI(title=api.title, version=api.version, openapi_url=None)
    alone.state = api.state
    alone.include_router(probes.router)
    _answer_errors(alone, (probes.router,))
    return alone


def _answer_errors(api: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Make *api* answer every error with `_error_response`. *routers* are the routers that *api* includes."""
    answer = partial(_error_response, [*api.routes, *(route for router in routers for route in router.routes)])
    api.add_exception_handler(GatewayError, answer)
    api.add_exception_handler(HTTPException, answer)
    api.add_exception_handler(Exception, answer)  # and goes on to the server, which logs it


async def _error_response(routes: Sequence[BaseRoute], request: Request, error: Exception) -> Response:
    """Return an error response in OpenAI's shape, also for unknown paths, wrong methods and unexpected exceptions."""
    headers: Mapping[str, str] | None = None
    if isinstance(error, HTTPException):
        path = request.url.path
        known: type[ClientError] = UnknownRoute
        if error.status_code == MethodNotAllowed.status and path not in INSTEAD:
            known, headers = MethodNotAllowed, {"allow": ", ".join(_methods(routes, request))}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers)
        meant = _meant(path) if known is UnknownRoute else ""
        error = known(f"{request.method} {path[:200]} is not served here{meant}")
    elif not isinstance(error, GatewayError):
        error = GatewayError("The gateway failed to serve this request")
    shape = ANTHROPIC if request.url.path.startswith("/v1/messages") else OPENAI
    body = shape.body(fault_of(error, request_id=request.headers.get("x-request-id")))
    response = Response(body, error.status, headers, media_type="application/json")
    response.raw_headers += error.response_headers
    return response


def _methods(routes: Sequence[BaseRoute], request: Request) -> list[str]:
    """Return all methods that a path supports. A router reports only those of the first matching route."""
    found = {"OPTIONS"}
    for route in routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found | {"HEAD"} if "GET" in found else found)


def _meant(path: str) -> str:
    """Return the end of an error message that suggests a path in place of a wrong one, or an empty string."""
    if path in INSTEAD:
        return f": {INSTEAD[path]}"
    for served in (*(path for path in ENDPOINTS if path.startswith("/v1/")), "/v1/models"):
        if path.rstrip("/").endswith(served.removeprefix("/v1")):
            return f"; did you mean {served}"
    return ""
