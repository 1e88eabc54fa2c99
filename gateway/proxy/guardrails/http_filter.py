"""Check texts with an external HTTP service.

The service receives ``POST {"direction", "texts", "team", "model"}`` and responds with ``{"action": "pass" | "redact" |
"block", "texts"}``. The response has *texts* only for ``redact``, and then as many as the request. The request also
contains each message of several parts as one joined text, after all single texts. The parts are joined with line
breaks.
"""

from typing import Literal

import httpx
import msgspec

from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, Action, FilterRequest, Verdict
from gateway.proxy.guardrails.parts import Together
from gateway.proxy.guardrails.service_caller import ServiceCaller

LARGEST_ANSWER_BYTES = 64 * 2**20


class _Asked(msgspec.Struct):
    direction: str
    texts: list[str]
    team: str | None
    model: str


class _Answered(msgspec.Struct):
    action: Literal["pass", "redact", "block"]
    texts: list[str] = []


class HttpFilter:
    """Guardrail filter that calls the service at *url*. *action* is the strongest permitted action.

    With ``redact``, the gateway follows the service's response. With ``block``, it also blocks texts that the service
    would redact. With ``log``, it changes and blocks nothing.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        api_key: str | None,
        action: Action,
        client: httpx.AsyncClient,
        service: ServiceCaller,
    ) -> None:
        """Create the filter. The owner of the shared HTTP client *client* closes it. The service receives *api_key* as
        a bearer token.
        """
        self._name = name
        self._url = url
        self._headers = {"content-type": "application/json"}
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._action = action
        self._client = client
        self._service = service

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, request: FilterRequest) -> Verdict:
        """Return the verdict of the service. Raise GuardrailUnavailable if the service is unavailable or its response
        is malformed.
        """
        together = Together(request.texts)
        body = msgspec.json.encode(_Asked(request.direction, together.asked, request.team, request.model))
        answered = await self._service.ask(lambda: self._answer(body, len(together.asked)))
        if answered.action == "pass" or (answered.action == "redact" and answered.texts == together.asked):
            return PASS
        if self._action == "log":
            return LOG
        if answered.action == "block" or self._action == "block":
            return BLOCK
        return Verdict("redact", together.placed(answered.texts))

    async def _answer(self, body: bytes, texts: int) -> _Answered:
        try:
            response = await self._client.post(self._url, content=body, headers=self._headers, timeout=None)
        except httpx.HTTPError as error:
            raise ConnectionError(type(error).__name__) from None
        if response.status_code != 200 or len(response.content) > LARGEST_ANSWER_BYTES:
            raise ConnectionError(str(response.status_code))
        answered = _decode(response.content)
        if answered.action == "redact" and len(answered.texts) != texts:
            raise ValueError("the service returned a different number of texts than it received")
        return answered


_decode = msgspec.json.Decoder(_Answered).decode
