"""HTTP interface of the simulated worker as a plain ASGI application, with the endpoints of each engine."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from simulator.bodies import BodyReader
from simulator.control import Control
from simulator.endpoints import ChatEndpoint, CompletionEndpoint
from simulator.errors import ApiError, Dialect
from simulator.exchange import ClientGone, Handler, HttpExchange, Receive, Scope, Send
from simulator.faults import Faults
from simulator.freeze import Freeze
from simulator.generation import Endpoint, GenerationService
from simulator.messages import MessagesEndpoint
from simulator.pooling import EmbeddingsEndpoint, RerankEndpoint, ScoreEndpoint
from simulator.responses import ResponsesEndpoint
from simulator.routes import Routes, RouteTable
from simulator.tokenization import Tokenization
from simulator.transcription import TranscriptionEndpoint


class SimulatorApp:
    """ASGI application of the simulated worker. Only *inference* routes are affected by faults and in the journal."""

    def __init__(
        self, *, dialect: Dialect, inference: RouteTable, others: RouteTable, faults: Faults, freeze: Freeze
    ) -> None:
        self._dialect = dialect
        self._inference = inference
        self._routes = Routes({**inference, **others})
        self._faults = faults
        self._freeze = freeze

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith("/control/"):
            await self._freeze.wait_over()
            send = self._thawed(send)
        exchange = HttpExchange(scope, receive, send, self._dialect)
        if not exchange.path.startswith("/control/") and self._faults.whole_worker != "none":
            if self._faults.whole_worker == "refuse":
                exchange.connection.reset()
                await exchange.connection.wait_lost()
                return
            if exchange.path not in self._inference:  # those hang with an entry in the journal
                await exchange.connection.wait_lost()
                return
        try:
            await self._routes.handler(exchange)(exchange)
        except ApiError as error:
            await exchange.reply_error(error)
        except ClientGone:
            return

    def _thawed(self, send: Send) -> Send:
        async def send_thawed(message: dict[str, Any]) -> None:
            await self._freeze.wait_over()
            await send(message)

        return send_thawed


def inference_endpoints(dialect: Dialect, reader: BodyReader, responses: ResponsesEndpoint) -> dict[str, Endpoint]:
    """Return the inference endpoints of the engine, by path. Rankings exist only in vLLM's format."""
    everywhere: dict[str, Endpoint] = {
        "/v1/chat/completions": ChatEndpoint(reader),
        "/v1/completions": CompletionEndpoint(reader),
        "/v1/responses": responses,
        "/v1/embeddings": EmbeddingsEndpoint(reader),
    }
    if dialect != "vllm":
        return everywhere
    rerank, score = RerankEndpoint(reader), ScoreEndpoint(reader)
    return everywhere | {
        "/v1/messages": MessagesEndpoint(reader),
        "/v1/rerank": rerank,
        "/v2/rerank": rerank,
        "/rerank": rerank,
        "/v1/score": score,
        "/score": score,
        "/v1/audio/transcriptions": TranscriptionEndpoint(reader),
    }


def inference_routes(endpoints: Mapping[str, Endpoint], generation: GenerationService) -> RouteTable:
    return {path: {"POST": partial(_serve, generation, endpoint)} for path, endpoint in endpoints.items()}


async def _serve(generation: GenerationService, endpoint: Endpoint, exchange: HttpExchange) -> None:
    await generation.serve(exchange, endpoint)


def text_routes(dialect: Dialect, reader: BodyReader, responses: ResponsesEndpoint) -> RouteTable:
    """Return the routes for stored responses and for tokenization, which need no engine. Dynamo has no such routes."""
    if dialect == "dynamo":
        return {}
    tokenization = Tokenization(reader)
    routes: dict[str, dict[str, Handler]] = {
        "/v1/responses/{id}": {"GET": responses.show},
        "/v1/responses/{id}/cancel": {"POST": responses.cancel},
        "/tokenize": {"POST": tokenization.tokenize},
        "/detokenize": {"POST": tokenization.detokenize},
    }
    if dialect == "sglang":
        return routes | {"/v1/tokenize": {"POST": tokenization.tokenize}}
    return routes | {"/v1/messages/count_tokens": {"POST": MessagesEndpoint(reader).count_tokens}}


def control_routes(control: Control) -> RouteTable:
    return {
        "/control/faults": {"GET": control.show_fault, "POST": control.set_fault},
        "/control/sse": {"GET": control.show_spelling, "POST": control.set_spelling},
        "/control/requests": {"GET": control.show_requests},
        "/control/reset": {"POST": control.reset},
    }
