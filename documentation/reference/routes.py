"""Page docs/reference/routes.md: every endpoint, and how the gateway treats every route of vLLM."""

from collections.abc import Iterator

from documentation.reference import markdown
from documentation.reference.example_gateway import openapi
from documentation.reference.vllm_routes import ROUTES, VLLM
from gateway.protocol.endpoints.endpoint import FORM
from gateway.protocol.endpoints.faults import ANTHROPIC
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.endpoints.unserved import INSTEAD
from gateway.protocol.engine_fields import ENGINE_FIELDS
from gateway.protocol.headers import STEERING

_INTRODUCTION = """\
This page lists for application developers every path that the gateway serves, and the routes of vLLM that the gateway
does not serve.

With every engine, the gateway handles requests to endpoints of workers in the same way: the gateway checks the key and
the limits, chooses a worker, and forwards the request. The worker's engine rejects requests that the engine does not
support. The page [HTTP API](http-api.md) describes bodies and answers, the page [Headers](headers.md) describes
headers, and the page [Errors](errors.md) describes errors."""

_OWN = """\
## Endpoints of the gateway

The gateway answers requests to the following paths itself. Only for paths below `/v1/responses/`, the gateway asks the
worker that keeps the response.
The [admin API](http-api.md#admin-api) below `/admin/v1` manages teams, keys and workers."""

_NOTES = {
    "/readyz": "Status 200 if at least one model can be served and each source of workers has answered once, else 503. "
    "The body gives the reason for each model that cannot be served, the age of the information about workers in "
    "`discovery`, and the reliability of each engine's KV events in `kv_events`.",
    "/livez": "Status 200 while the process answers.",
    "/warmgate/explain": "A call needs an admin key: see [explain](../how-to/explain.md).",
    "/v1/usage": "See [what callers see](../concepts/quotas-and-fairness.md#what-callers-see).",
    "/v1/models": "The list contains configured names and exact aliases. The gateway asks no worker.",
}
"""Additions to the summaries of the OpenAPI document, by path."""

_VLLM = f"""\
## Routes of vLLM

The following table contains every public route of {VLLM}, and two routes that only OpenAI's own API has.

| outcome | meaning |
|---|---|
| passed on | The gateway sends the request to a worker that the strategy chooses. |
| answered | The gateway answers the request itself. |
| refused | The gateway returns status 404 with the code `unknown_url`, and says what to use instead. |

The gateway does not serve WebSockets."""

_FIELDS = """\
## Fields of engines

Some fields of a request control the engine and not the answer: which worker computes the prompt, where the KV blocks of
the prompt come from, with which priority a request runs, or which code the engine executes. The gateway answers a
request with such a field with status 400, and the error names the field. The gateway also rejects `extra_body`, which
is an argument of SDKs and not a field of a request. In forms, the gateway also
rejects the field `session_id`. In JSON, `session_id` names the [session](../how-to/sessions.md), and workers do not
receive the field.

`models[].allowed_engine_fields` lists engine fields that callers of a model are allowed to send. Allowed engine fields
reach the worker unchanged. If a body has a key twice, the last value of the key counts, as in the engines.

The gateway rejects the following fields:"""

_STEERING = "The gateway also removes request headers that control an engine, with names that begin as follows:"


def page() -> str:
    return markdown.page(
        "Endpoints",
        _INTRODUCTION,
        "## Endpoints of workers",
        markdown.table(("endpoint", "purpose", "body", "errors"), _of_workers()),
        _OWN,
        markdown.table(("endpoint", "purpose"), _own()),
        _VLLM,
        "<!-- api -->\n" + markdown.table(("route", "outcome", "remark"), _of_vllm()) + "\n<!-- /api -->",
        f"{_FIELDS} {', '.join(map(markdown.code, ENGINE_FIELDS))}.",
        f"{_STEERING} {', '.join(markdown.code(prefix.decode('ascii')) for prefix in STEERING)}.",
    )


def _of_workers() -> Iterator[tuple[str, ...]]:
    for path, endpoint in ENDPOINTS.items():
        body = "form" if endpoint.media == FORM else "JSON"
        errors = "Anthropic's" if endpoint.errors is ANTHROPIC else "OpenAI's"
        yield markdown.code(f"POST {path}"), markdown.sentence(endpoint.summary), body, errors


def _own() -> Iterator[tuple[str, ...]]:
    yield markdown.code("GET /"), "Name, version and links. `GET /v1` answers the same."
    for path, operations in openapi("/openapi.json")["paths"].items():
        if path not in ENDPOINTS:
            for method, operation in operations.items():
                text = f"{markdown.sentence(operation['summary'])} {_NOTES.get(path, '')}".strip()
                yield markdown.code(f"{method.upper()} {path}"), text
    yield markdown.code("GET /docs"), "The OpenAPI document as a web page. `GET /openapi.json` is the document."


def _of_vllm() -> Iterator[tuple[str, ...]]:
    own = openapi("/openapi.json")["paths"].keys() - ENDPOINTS.keys()
    for route, remark in ROUTES:
        path = route.partition(" ")[2]
        if path in ENDPOINTS or path.startswith("/v1/responses/{id}"):
            yield markdown.code(route), "passed on", remark
        elif path in own:
            yield markdown.code(route), "answered", remark
        else:
            advice = "; ".join(filter(None, (remark, INSTEAD.get(path, ""))))
            yield markdown.code(route), "refused", advice
