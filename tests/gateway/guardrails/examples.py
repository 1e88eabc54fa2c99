"""Guardrails for tests: what a test does not name is plain."""

from collections.abc import Sequence
from typing import Any

from gateway.endpoints.endpoint import Endpoint
from gateway.endpoints.table import ENDPOINTS
from gateway.exchange import Exchange
from gateway.guardrails.assembly import scan_of
from gateway.guardrails.filter import Action, Direction, Question, Text, Verdict
from gateway.guardrails.guard import Chain, Guard, Rule
from gateway.guardrails.redactor import Scan, matches
from gateway.guardrails.scanning import ScanFilter
from gateway.guardrails.tally import GuardrailTally
from gateway.settings.guardrails import NATIONAL_IDS, PERSONAL, GuardrailSettings

CARD = "4111 1111 1111 1111"
MAIL = "jane.doe@example.org"
CHAT: Endpoint = ENDPOINTS["/v1/chat/completions"]
BOTH: frozenset[Direction] = frozenset({"request", "response"})


def settings(kind: str = "pii", **fields: Any) -> GuardrailSettings:
    return GuardrailSettings.model_validate({"name": "pii", "kind": kind, **fields})


def a_scan(kind: str = "pii", **fields: Any) -> Scan:
    return scan_of(settings(kind, **fields))


def every_kind() -> Scan:
    """All personal data and all ids."""
    return a_scan(detect=[*PERSONAL, *NATIONAL_IDS])


def a_filter(name: str = "pii", action: Action = "redact", *, kind: str = "pii", **fields: Any) -> ScanFilter:
    return ScanFilter(name, a_scan(kind, **fields), action)


def a_question(*texts: str, direction: Direction = "request") -> Question:
    return Question(direction, tuple(Text(text) for text in texts), None, "tiny")


def a_rule(scan: ScanFilter, *, directions: frozenset[Direction] = BOTH) -> Rule:
    return Rule(scan, scan.action, directions)


def a_guard(
    *rules: Rule,
    endpoint: Endpoint = CHAT,
    tally: GuardrailTally | None = None,
    native: tuple[str, str] | None = None,
    **exchange: Any,
) -> tuple[Guard, Exchange]:
    """A guard, and the exchange that it writes on."""
    of = Exchange(b"id", endpoint.path, 0.0)
    for name, value in exchange.items():
        setattr(of, name, value)
    chain = Chain(tuple(rules), native)
    return Guard(chain, endpoint, of, model="tiny", tally=tally or GuardrailTally()), of


class Says:
    """A filter that says what it was made with, and remembers what it was asked."""

    def __init__(self, *verdicts: Verdict | Exception, name: str = "judge") -> None:
        self._verdicts = list(verdicts)
        self._name = name
        self.asked: list[Question] = []

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, question: Question) -> Verdict:
        self.asked.append(question)
        verdict = self._verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


def found_in(kind: str, text: str, **fields: Any) -> Sequence[str]:
    """What a guardrail with *fields* finds in *text*."""
    return [text[match.start : match.end] for _, match in matches(a_scan(kind, **fields), text)]
