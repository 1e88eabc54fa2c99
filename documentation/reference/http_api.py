"""Page docs/reference/http-api.md: every operation of both OpenAPI documents, with parameters, bodies and answers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from documentation.reference import markdown
from documentation.reference.example_gateway import openapi
from gateway.protocol.endpoints.table import ENDPOINTS

Json = Mapping[str, Any]

_INTRODUCTION = """\
This page lists for application developers and administrators every operation of the gateway's HTTP API, with the
parameters, the request body and the answer of the operation.

The gateway serves two OpenAPI documents, from which clients can be generated: `GET /openapi.json` describes the API for
callers, and `GET /admin/v1/openapi.json` describes the admin API. The page [Endpoints](routes.md) lists the endpoints
of workers, the page [Headers](headers.md) lists the headers, and the page [Errors](errors.md) lists the errors.

## API for callers

The gateway forwards requests for endpoints of workers, and reads only the fields that it needs. The engine of the
worker defines all other fields of a request. The gateway answers the following operations itself. Probes, `/version`
and `/metrics` need no key. `/warmgate/explain` needs an admin key, and all other operations need an API key."""

_ADMIN = """\
## Admin API

The admin API is at `/admin/v1`, on the port `admin.port` or on the main port. Without `admin.keys`, the admin API is
closed. A request to the admin API sends an admin key in `authorization: Bearer KEY`. Each key in `admin.keys` has a
role:

| role | permissions |
|---|---|
| `viewer` | read everything except secrets |
| `operator` | also change limits, weights and priorities, block teams and keys, drain workers, reload settings |
| `owner` | everything, including operations that return secrets: create keys and rotate keys |

`/warmgate/explain` accepts admin keys of any role. The audit log counts requests with a wrong or missing admin key
in at most one entry per minute.

| subject | rule |
|---|---|
| lists | `limit` is the size of a page. `after` is the value of `next` on the previous page. |
| changes | `PATCH` is a JSON merge patch (RFC 7396): null restores the default. |
| conflicts | Teams and keys have an `etag`. A change with `if-match` is answered 412 if another change came first. |
| repetitions | A `POST` repeated with the same `idempotency-key` within 24 hours gets the same answer. |
| rotation | With `grace_s`, the former secret of a key stays valid for that time. |
| drains | A drain affects one gateway only. |
| weights of routes | They affect all gateways that share the store, until the weights in the settings change. |

If a `POST` is repeated with the same `idempotency-key`, the repetition has no further effect. The gateway does not
store the secret of a new key, and derives the secret again from the caller's admin key. A later rotation of a key
shortens earlier grace periods only with `end_graces`.

### Added workers

An owner can add workers while the gateway runs, and remove added workers. A removed worker finishes its running
requests. The store keeps added workers: every gateway of the store uses an added worker within a second, and also after
a restart. Without a store, added workers are lost when the gateway stops. At most 256 workers can be added to one
model, and at most 1000 workers to all models. Workers that need an `api_key` or another field of `models[].workers[]`
belong in the settings.

In the list of workers, `source` shows where each worker comes from. Only workers with the source `api` can be removed
with the admin API. A request to remove another worker gets status 409. An added worker is not in use in three cases,
which the `state` of the worker shows:

| state | reason |
|---|---|
| `model_not_configured` | The model of the worker is not in the settings. |
| `listed_elsewhere` | The settings or a discovery have the address of the worker. |
| `id_taken` | The settings or a discovery have the id of the worker. |"""


def page() -> str:
    public, admin = openapi("/openapi.json"), openapi("/admin/v1/openapi.json")
    own = {path: operations for path, operations in public["paths"].items() if path not in ENDPOINTS}
    return markdown.page(
        "HTTP API",
        _INTRODUCTION,
        *_operations(own),
        _ADMIN,
        *_operations(admin["paths"]),
        "## Objects",
        "The HTTP API uses the following objects in request bodies and responses.",
        *_objects(public, admin),
    )


def _operations(paths: Json) -> Iterator[str]:
    for path, operations in paths.items():
        for method, operation in operations.items():
            yield f"### `{method.upper()} {path}`"
            yield markdown.sentence(operation["summary"])
            yield _paragraphs(operation.get("description", ""))
            if parameters := operation.get("parameters"):
                rows = [
                    (markdown.code(each["name"]), each["in"], _type(each["schema"]), _meaning(each))
                    for each in parameters
                ]
                yield markdown.table(("parameter", "in", "type", "meaning"), rows)
            body = _schema(operation.get("requestBody"))
            answer = _schema(
                next((operation["responses"][code] for code in ("200", "201") if code in operation["responses"]), None)
            )
            yield " ".join(filter(None, (body and f"Body: {body}.", answer and f"Answer: {answer}.")))


def _objects(*documents: Json) -> Iterator[str]:
    schemas: dict[str, Any] = {}
    for document in documents:
        schemas |= document["components"]["schemas"]
    for name, schema in sorted(schemas.items(), key=lambda entry: _name(entry[0])):
        fields = schema.get("properties", {})
        yield f"### {_name(name)}"
        yield _paragraphs(schema.get("description", ""))
        required = schema.get("required", ())
        rows = [
            (markdown.code(each), _type(field), "yes" if each in required else "no", _meaning(field))
            for each, field in fields.items()
        ]
        yield markdown.table(("field", "type", "always present", "meaning"), rows) if rows else ""


def _schema(part: Json | None) -> str:
    content = (part or {}).get("content", {})
    return _type(content["application/json"].get("schema", {})) if "application/json" in content else ""


def _type(schema: Json) -> str:
    """Return the type of *schema* as text, with links to objects."""
    if "$ref" in schema:
        name = _name(schema["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if values := schema.get("enum") or [schema[key] for key in ("const",) if key in schema]:
        return ", ".join(markdown.code(str(each)) for each in values)
    if options := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(_unique(_type(option) for option in options))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _name(schema: str) -> str:
    """Return the name of *schema* without the underscores that pydantic puts into names of generic classes."""
    return schema.replace("_", "")


def _meaning(part: Json) -> str:
    return markdown.sentence(part.get("description", ""))


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))
