"""`/openapi.json`: describe the routes that FastAPI serves and the endpoints that workers serve.

Bodies of worker endpoints are described only as far as the gateway validates them. The engine defines all other fields.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gateway.protocol.endpoints.endpoint import FORM, JSON, Endpoint
from gateway.protocol.endpoints.faults import ANTHROPIC

Json = dict[str, Any]

KEY_SCHEMES: dict[str, Json] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "API key of a team"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "API key of a team"},
}
"""Security schemes for the ways to send an API key."""
_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_SCHEMAS: dict[str, Json] = {
    "Error": {
        "type": "object",
        "description": "Error response in the format of OpenAI's API",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": _TEXT,
                    "type": _TEXT,
                    "param": _TEXT_OR_NULL,
                    "code": {"type": ["string", "integer", "null"]},
                },
            }
        },
    },
    "AnthropicError": {
        "type": "object",
        "description": "Error response in the format of Anthropic's API",
        "required": ["type", "error"],
        "properties": {
            "type": {"const": "error"},
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {"type": _TEXT, "message": _TEXT},
            },
        },
    },
}
_MESSAGES: Json = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["role"],
        "properties": {
            "role": _TEXT,
            "content": {
                "anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": ["string", "object"]}}]
            },
        },
    },
}
_FIELDS: dict[str, Json] = {
    "model": {"type": "string", "minLength": 1, "description": "Name or alias of a configured model"},
    "messages": _MESSAGES,
    "input": {"anyOf": [_TEXT, {"type": "array", "items": {"type": "object"}}]},
}
_OTHERWISE: dict[str, dict[str, Json]] = {
    "/v1/chat/completions/batch": {"messages": {"type": "array", "minItems": 1, "items": _MESSAGES}},
    "/v1/responses": {"input": _FIELDS["input"]},
    "/v1/completions": {"prompt": {"description": "Text, texts, token ids, or lists of token ids"}},
}
"""Request fields that have a different description in one endpoint, or that matter only there."""
_VALIDATION = ("HTTPValidationError", "ValidationError")
"""Schemas of FastAPI's own errors, which the gateway does not use."""


def describe(api: FastAPI, endpoints: Iterable[Endpoint]) -> None:
    """Add *endpoints* and the gateway's error format to the OpenAPI description of *api*."""
    proxied = {endpoint.path: {"post": _operation(endpoint)} for endpoint in endpoints}

    def openapi() -> Json:
        if api.openapi_schema is None:
            own = get_openapi(title=api.title, version=api.version, routes=api.routes)
            api.openapi_schema = complete(own, proxied)
            api.openapi_schema["components"]["securitySchemes"] = KEY_SCHEMES
            api.openapi_schema["security"] = [{scheme: []} for scheme in KEY_SCHEMES]
        return api.openapi_schema

    api.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI has for it


def complete(own: Json, proxied: dict[str, Json]) -> Json:
    """Return FastAPI's description *own*, preceded by the endpoints *proxied* and extended by the gateway's errors."""
    for operations in own["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            responses.pop("422", None)
            for status, error in _errors("Error").items():
                responses.setdefault(status, error)
    own["paths"] = {**proxied, **own["paths"]}
    schemas = own.setdefault("components", {}).setdefault("schemas", {})
    for name in _VALIDATION:
        schemas.pop(name, None)
    schemas.update(_SCHEMAS)
    return own


def _operation(endpoint: Endpoint) -> Json:
    return {
        "summary": endpoint.summary,
        "operationId": endpoint.path.strip("/").replace("/", "_"),
        "tags": ["workers"],
        "requestBody": {
            "required": True,
            "content": {endpoint.media.decode("ascii"): {"schema": _body_of(endpoint)}},
        },
        "responses": {
            "200": {
                "description": "The worker's answer",
                "content": {
                    JSON.decode("ascii"): {"schema": {}},
                    "text/event-stream": {"schema": _TEXT},
                    **({"text/plain": {"schema": _TEXT}} if endpoint.media == FORM else {}),
                },
            },
            **_errors("AnthropicError" if endpoint.errors is ANTHROPIC else "Error"),
        },
    }


def _body_of(endpoint: Endpoint) -> Json:
    return {
        "type": "object",
        "required": list(endpoint.required),
        "properties": {name: _FIELDS[name] for name in ("model", *endpoint.required)}
        | _OTHERWISE.get(endpoint.path, {}),
        "additionalProperties": True,
    }


def _errors(schema: str) -> dict[str, Json]:
    content = {JSON.decode("ascii"): {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {
        "4XX": {"description": "The request is invalid or not allowed", "content": content},
        "5XX": {"description": "The gateway or its workers cannot serve the request", "content": content},
    }
