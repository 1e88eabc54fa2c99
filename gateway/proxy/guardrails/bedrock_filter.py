"""Check texts with a guardrail on Amazon Bedrock, for requests to any backend.

The filter calls ``ApplyGuardrail`` of the Bedrock runtime API. One call is made for each text, because the response
contains the changed text but not the position of the change. Source:
docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ApplyGuardrail.html.
"""

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.backends.bedrock.endpoint import BedrockEndpoint
from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, Action, FilterRequest, Verdict
from gateway.proxy.guardrails.parts import Together
from gateway.proxy.guardrails.service_caller import ServiceCaller

_SOURCES = {"request": "INPUT", "response": "OUTPUT"}


class BedrockFilter:
    """Guardrail filter that calls version *version* of the Bedrock guardrail *guardrail_id*. For *action*, see
    `HttpFilter`.
    """

    def __init__(
        self,
        name: str,
        guardrail_id: str,
        version: str,
        *,
        endpoint: BedrockEndpoint,
        action: Action,
        service: ServiceCaller,
    ) -> None:
        self._name = name
        self._path = f"/guardrail/{quote(guardrail_id, safe='')}/version/{quote(version, safe='')}/apply"
        self.native = (guardrail_id, version)
        """Id and version of the guardrail, in the form that Bedrock's Converse API expects in ``guardrailConfig``."""
        self._endpoint = endpoint
        self._action = action
        self._service = service

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, request: FilterRequest) -> Verdict:
        """Return the verdict on all texts of *request*. Raise GuardrailUnavailable if AWS does not answer for one of
        the texts.
        """
        source = _SOURCES[request.direction]
        together = Together(request.texts)
        answers = await asyncio.gather(*[self._service.ask(_Asking(self, source, text)) for text in together.asked])
        if all(answer is None for answer in answers):
            return PASS
        if self._action == "log":
            return LOG
        if self._action == "block" or any(answer is _BLOCKED for answer in answers):
            return BLOCK
        said = [text if answer is None else str(answer) for text, answer in zip(together.asked, answers, strict=True)]
        return Verdict("redact", together.placed(said))

    async def apply(self, source: str, text: str) -> "str | _Blocked | None":
        """Return *text* as the guardrail changed it, or None if the guardrail did not change it.

        Raises:
            GatewayError: if AWS cannot be reached or rejects the call.
            ValueError: if the response of AWS is malformed.
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
            case {"action": "GUARDRAIL_INTERVENED", "outputs": [{"text": str(changed)}], "assessments": assessments}:
                return _BLOCKED if _blocks(assessments) else changed
            case {"action": "GUARDRAIL_INTERVENED"}:
                return _BLOCKED
        raise ValueError("the response of ApplyGuardrail is malformed")


class _Blocked:
    """Result of the check of a text that the guardrail blocks."""


_BLOCKED = _Blocked()


class _Asking:
    """Call to the guardrail, in the form that `ServiceCaller.ask` expects."""

    def __init__(self, bedrock: BedrockFilter, source: str, text: str) -> None:
        self._bedrock = bedrock
        self._source = source
        self._text = text

    async def __call__(self) -> "str | _Blocked | None":
        return await self._bedrock.apply(self._source, self._text)


def _blocks(assessments: Any) -> bool:
    """Return whether *assessments* contain an action other than anonymizing. Assessments without any action count as
    blocking.
    """
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
