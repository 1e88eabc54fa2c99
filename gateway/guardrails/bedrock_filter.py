"""A guardrail of Amazon Bedrock, applied to texts of whoever answers (``ApplyGuardrail`` of the runtime's API).

Each text is a question of its own: an answer says what has become of the text, not where in which of several.
Facts: docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ApplyGuardrail.html.
"""

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.backends.bedrock.endpoint import Endpoint
from gateway.guardrails.filter import BLOCK, LOG, PASS, Action, Question, Verdict
from gateway.guardrails.parts import Together
from gateway.guardrails.patience import Patient

_SOURCES = {"request": "INPUT", "response": "OUTPUT"}


class BedrockFilter:
    """Asks the guardrail *guardrail_id* in *version*. *action* as `gateway.guardrails.http_filter.HttpFilter`."""

    def __init__(
        self, name: str, guardrail_id: str, version: str, *, endpoint: Endpoint, action: Action, patient: Patient
    ) -> None:
        self._name = name
        self._path = f"/guardrail/{quote(guardrail_id, safe='')}/version/{quote(version, safe='')}/apply"
        self.native = (guardrail_id, version)
        """As Converse takes it in ``guardrailConfig``."""
        self._endpoint = endpoint
        self._action = action
        self._patient = patient

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, question: Question) -> Verdict:
        """Raises GuardrailAway: AWS did not say, of one of the texts."""
        source = _SOURCES[question.direction]
        together = Together(question.texts)
        answers = await asyncio.gather(*[self._patient.ask(_Asking(self, source, text)) for text in together.asked])
        if all(answer is None for answer in answers):
            return PASS
        if self._action == "log":
            return LOG
        if self._action == "block" or any(answer is _BLOCKED for answer in answers):
            return BLOCK
        said = [text if answer is None else str(answer) for text, answer in zip(together.asked, answers, strict=True)]
        return Verdict("redact", together.placed(said))

    async def apply(self, source: str, text: str) -> "str | _Blocked | None":
        """What has become of *text*; None: nothing.

        Raises:
            GatewayError: AWS could not be reached, or refused.
            ValueError: what it said is no answer.
        """
        payload = {"source": source, "content": [{"text": {"text": text}}]}
        response = await self._endpoint.post(self._path, payload)
        try:
            body = await response.aread()
        finally:
            await response.aclose()
        if response.status_code != 200:
            raise ConnectionError(str(response.status_code))
        answer = msgspec.json.decode(body)
        match answer:
            case {"action": "NONE"}:
                return None
            case {"action": "GUARDRAIL_INTERVENED", "outputs": [{"text": str(told)}], "assessments": assessments}:
                return _BLOCKED if _blocks(assessments) else told
            case {"action": "GUARDRAIL_INTERVENED"}:
                return _BLOCKED
        raise ValueError("no answer of ApplyGuardrail")


class _Blocked:
    """Instead of a text."""


_BLOCKED = _Blocked()


class _Asking:
    """One question, as `Patient.ask` takes it."""

    def __init__(self, bedrock: BedrockFilter, source: str, text: str) -> None:
        self._bedrock = bedrock
        self._source = source
        self._text = text

    async def __call__(self) -> "str | _Blocked | None":
        return await self._bedrock.apply(self._source, self._text)


def _blocks(assessments: Any) -> bool:
    """Whether something in *assessments* is blocked, and not only anonymised; what names no action is taken to be."""
    actions = list(_actions(assessments))
    return not actions or any(action != "ANONYMIZED" for action in actions)


def _actions(value: Any) -> list[str]:
    if isinstance(value, list):
        return [action for inner in value for action in _actions(inner)]
    if not isinstance(value, dict):
        return []
    found = [action for inner in value.values() for action in _actions(inner)]
    action = value.get("action")
    return [*found, action] if isinstance(action, str) and action != "NONE" else found
