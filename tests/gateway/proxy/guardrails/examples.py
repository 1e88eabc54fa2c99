"""Guardrails for tests: what a test does not name is plain."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from gateway.app.guardrails import scan_of
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.filter import Action, Direction, FilterRequest, Text, Verdict
from gateway.proxy.guardrails.guard import Chain, Guard, GuardrailRule
from gateway.proxy.guardrails.redactor import Scan, matches
from gateway.proxy.guardrails.scanning import ScanFilter
from gateway.settings.guardrails import NATIONAL_IDS, PERSONAL, ScanningGuardrail

CARD = "4111 1111 1111 1111"
MAIL = "jane.doe@example.org"
CHAT: Endpoint = ENDPOINTS["/v1/chat/completions"]
BOTH: frozenset[Direction] = frozenset({"request", "response"})


_SETTINGS: TypeAdapter[ScanningGuardrail] = TypeAdapter(ScanningGuardrail)


def settings(kind: str = "pii", **fields: Any) -> ScanningGuardrail:
    return _SETTINGS.validate_python({"name": "pii", "kind": kind, **fields})


def a_scan(kind: str = "pii", **fields: Any) -> Scan:
    return scan_of(settings(kind, **fields))


def every_kind() -> Scan:
    """All personal data and all ids."""
    return a_scan(detect=[*PERSONAL, *NATIONAL_IDS])


def a_filter(name: str = "pii", action: Action = "redact", *, kind: str = "pii", **fields: Any) -> ScanFilter:
    return ScanFilter(name, a_scan(kind, **fields), action)


def a_question(*texts: str, direction: Direction = "request") -> FilterRequest:
    return FilterRequest(direction, tuple(Text(text) for text in texts), None, "tiny")


def a_rule(scan: ScanFilter, *, directions: frozenset[Direction] = BOTH) -> GuardrailRule:
    return GuardrailRule(scan, scan.action, directions)


def a_guard(
    *rules: GuardrailRule,
    endpoint: Endpoint = CHAT,
    counters: GuardrailCounters | None = None,
    native: tuple[str, str] | None = None,
    **exchange: Any,
) -> tuple[Guard, Exchange]:
    """A guard, and the exchange that it writes on."""
    of = Exchange(b"id", endpoint.path, 0.0)
    for name, value in exchange.items():
        setattr(of, name, value)
    chain = Chain(tuple(rules), native)
    return Guard(chain, endpoint, of, model="tiny", counters=counters or GuardrailCounters()), of


class Says:
    """A filter that says what it was made with, and remembers what it was asked."""

    def __init__(self, *verdicts: Verdict | Exception, name: str = "judge") -> None:
        self._verdicts = list(verdicts)
        self._name = name
        self.asked: list[FilterRequest] = []

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, request: FilterRequest) -> Verdict:
        self.asked.append(request)
        verdict = self._verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


def found_in(kind: str, text: str, **fields: Any) -> Sequence[str]:
    """What a guardrail with *fields* finds in *text*."""
    return [text[match.start : match.end] for _, match in matches(a_scan(kind, **fields), text)]
