"""The hand-written page docs/reference/headers.md, held against the names of headers in the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/headers.md").read_text(encoding="utf-8")
SERVING = ("api", "proxy", "protocol", "server", "tenancy")
"""Rooms of the gateway that talk to callers. The others talk to workers and services."""

WITHOUT_DASH = {
    "allow",
    "authorization",
    "cookie",
    "etag",
    "host",
    "origin",
    "traceparent",
    "tracestate",
    "vary",
    "via",
}
LANGFUSE = {"langfuse_session_id", "langfuse_tags", "langfuse_trace_name", "langfuse_trace_user_id"}
NO_HEADERS = {
    "event-stream": "part of a media type",
    "form-data": "part of a media type",
    "keep-alive": "also a value",
    "latin-1": "an encoding",
    "no-cache": "a value",
    "no-referrer": "a value",
    "no-store": "a value",
    "same-origin": "a value",
    "swagger-ui": "the name of a folder",
    "utf-8": "an encoding",
    "x-anthropic-billing-header": "the beginning of a line in prompts of Claude Code",
    "x-gzip": "a value",
}
DESCRIBE_A_BODY = {"content-digest", "content-length", "content-md5", "repr-digest", "transfer-encoding"}
"""Removed or set together with the body that they describe."""


def in_the_code() -> set[str]:
    """Names of headers in string literals: lower case, with a dash."""
    paths = [path for room in SERVING for path in (ROOT / "gateway" / room).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.parent.name != "findings"]  # codes of findings
    texts += [(ROOT / f"gateway/settings/{name}.py").read_text(encoding="utf-8") for name in ("models", "server")]
    words = {word for text in texts for word in re.findall(r'(?<![\w-])b?"([a-z][a-z0-9]*(?:-[a-z0-9]+)+)"', text)}
    return words - NO_HEADERS.keys() - DESCRIBE_A_BODY


def on_the_page() -> set[str]:
    return set(re.findall(r"`([a-z][\w-]*)`", PAGE))


def test_every_header_in_the_code_is_on_the_page() -> None:
    """Prefixes of headers that control an engine are on the page of endpoints."""
    engines = (ROOT / "docs/reference/routes.md").read_text(encoding="utf-8")

    assert set() == {name for name in in_the_code() - on_the_page() if f"`{name}" not in engines}


def test_headers_without_a_dash_are_on_the_page() -> None:
    assert set() == (WITHOUT_DASH | LANGFUSE) - on_the_page()


def test_every_header_of_warmgate_on_the_page_is_in_the_code() -> None:
    """A header that the gateway no longer knows is taken off the page."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "gateway").rglob("*.py"))

    assert set() == {name for name in on_the_page() if name.startswith("x-") and name.rsplit("-", 1)[0] not in text}
