"""Page docs/reference/errors.md: every error of the gateway, with its status, code and remedy."""

import re
from collections.abc import Iterator

from documentation.reference import markdown
from documentation.reference.error_advice import ADVICE, FORBIDDEN
from gateway.api.admin_v1.entities import DeclaredElsewhere, Overtaken
from gateway.protocol.errors import Forbidden, GatewayError, RateLimited
from gateway.storage.redis_link import StoreRefuses
from gateway.storage.unfit import StoreUnfit

_INTRODUCTION = """\
This page lists for application developers and operators every error of the gateway, when the gateway returns the error,
and what to do.

Errors have OpenAI's format on every path, so that SDKs raise their usual exceptions. On paths below `/v1/messages`,
errors have Anthropic's format. The gateway converts errors of workers that have another format.

```json
{
  "error": {
    "message": "The model 'small' does not exist or is not served here",
    "type": "invalid_request_error",
    "param": "model",
    "code": "model_not_found"
  }
}
```

An error *for the next worker* makes the gateway try the next worker or fallback, if the caller has received nothing
yet. If all attempts fail, the caller receives the error of the last attempt. After the first byte of a stream, an error
is the last event of the stream. The name of the error is the label `error` of `warmgate_errors_total` and the field
`error` of the [log line](logs.md). Errors with status 503 have the header `retry-after` where the gateway knows when a
retry makes sense. The page [When things fail](../concepts/failure-model.md) describes retries."""

_FORBIDDEN = """\
## Reasons for status 403

The name of all errors with status 403 is `Forbidden`, and the type is `permission_error`."""

_WORKERS = """\
## Errors of workers

If a worker answers with a status 4xx that concerns the request, the gateway forwards the worker's status and message.
If a worker answers with status 401 or 403, the gateway returns status 502, because the gateway's key for the worker is
wrong, and not the caller's key. If the engine of a model does not have an endpoint, the error has status 404 and the
code `endpoint_not_supported`, and the message names an endpoint to use instead."""

_ELSEWHERE = (DeclaredElsewhere, Overtaken, StoreRefuses, StoreUnfit)
"""Errors that other modules define. These imports make the page independent of other imports."""
_SOURCES = {"client": "Errors of requests", "gateway": "Errors of the gateway", "upstream": "Errors of backends"}


def page() -> str:
    sections = (
        f"## {title}\n\n{_table([each for each in errors() if each.source == source])}"
        for source, title in _SOURCES.items()
    )
    forbidden = [(markdown.code(code), text) for code, text in FORBIDDEN.items()]
    return markdown.page(
        "Errors",
        _INTRODUCTION,
        *sections,
        _FORBIDDEN,
        markdown.table(("code", "meaning and remedy"), forbidden),
        _WORKERS,
    )


def errors() -> list[type[GatewayError]]:
    """Return all error classes that callers can receive, sorted by status."""
    inner = ("ClientError", "WaitsTooLong", *(each.__name__ for each in _ELSEWHERE))
    ours = (each for each in _below(GatewayError) if each.__module__.startswith("gateway."))
    found = [each for each in ours if each.__name__ not in inner]
    found += [each for each in _ELSEWHERE if each not in found]
    return sorted(found, key=lambda each: (each.status, each.__name__))


def when(error: type[GatewayError]) -> str:
    """Return when *error* is raised, according to its docstring. Sentences about the attributes of the class are left
    out: those with a name between asterisks.
    """
    if error is GatewayError:
        return "the gateway has a fault of its own"
    text = " ".join((error.__doc__ or "").split("\n\n")[0].split())
    sentences = [each for each in re.split(r"(?<=\.) ", text) if "*" not in each]
    return re.sub(r"^Raised if ", "", " ".join(sentences))


def _below(error: type[GatewayError]) -> Iterator[type[GatewayError]]:
    yield error
    for each in error.__subclasses__():
        yield from _below(each)


def _table(found: list[type[GatewayError]]) -> str:
    columns = ("status", "code", "name", "type", "when", "what to do", "for the next worker")
    rows = [
        (
            _status(each),
            _code(each),
            markdown.code(each.__name__),
            "`requests` or `tokens`" if each is RateLimited else markdown.code(each.type),
            markdown.sentence(when(each)),
            ADVICE[each.__name__],
            "yes" if each.retryable else "no",
        )
        for each in found
    ]
    return markdown.table(columns, rows)


def _code(error: type[GatewayError]) -> str:
    return "[several](#reasons-for-status-403)" if error is Forbidden else markdown.code(error.code or "") or "none"


def _status(error: type[GatewayError]) -> str:
    return "the backend's" if error.__name__ == "UpstreamRefused" else str(error.status)
