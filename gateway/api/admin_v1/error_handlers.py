"""Error handlers of the admin API. Every error response has the shape of OpenAI's errors."""

from collections.abc import Iterable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from gateway.api.admin_v1.faults import fault_of
from gateway.protocol.errors import GatewayError, MethodNotAllowed, UnknownRoute
from gateway.proxy.incoming import CallerGone


def answer_errors(api: FastAPI, routes: Iterable[BaseRoute]) -> None:
    """Make the application *api* answer every error in the form of `GatewayError.to_body`.

    *routes* are the routes of the application.
    """
    api.state.routes = tuple(routes)
    api.add_exception_handler(GatewayError, _error_response)
    api.add_exception_handler(RequestValidationError, _error_response)
    api.add_exception_handler(HTTPException, _error_response)
    api.add_exception_handler(CallerGone, _caller_gone)
    api.add_exception_handler(Exception, _error_response)  # and goes on to the server, which logs it


async def _error_response(request: Request, error: Exception) -> Response:
    known = _known(request, error)
    headers = {"allow": ", ".join(_allowed(request))} if isinstance(known, MethodNotAllowed) else None
    response = Response(known.to_body(), known.status, headers, media_type="application/json")
    response.raw_headers += known.response_headers
    return response


def _known(request: Request, error: Exception) -> GatewayError:
    match error:
        case GatewayError():
            return error
        case RequestValidationError():
            return fault_of(error.errors(), _parameters(request))
        case HTTPException():
            known = MethodNotAllowed if error.status_code == MethodNotAllowed.status else UnknownRoute
            return known(f"{request.method} {request.url.path[:200]} is not served here")
        case _:
            return GatewayError("The gateway failed to serve this request")


def _allowed(request: Request) -> list[str]:
    """Return all methods that a path supports. Starlette reports only those of the first matching route."""
    routes = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


def _parameters(request: Request) -> Iterable[str]:
    """Yield the names of the query parameters that a route accepts."""
    route = request.scope.get("route")
    described = request.app.openapi()["paths"] if isinstance(route, APIRoute) else {}
    operation = described.get(getattr(route, "path", ""), {}).get(request.method.lower(), {})
    return [parameter["name"] for parameter in operation.get("parameters", ())]


async def _caller_gone(_request: Request, _error: Exception) -> Response:
    return Response()
