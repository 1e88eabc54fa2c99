"""The worker's HTTP surface: which path is answered by what, as a plain ASGI application."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.simulator.bodies import BodyReader, GenerationRequest
from gateway.simulator.control import Control
from gateway.simulator.errors import ApiError
from gateway.simulator.exchange import ClientGone, Exchange, Receive, Scope, Send
from gateway.simulator.exposition import Exposition
from gateway.simulator.faults import Faults
from gateway.simulator.generation import GenerationService
from gateway.simulator.replies import ChatShape, CompletionShape, ReplyShape
from gateway.simulator.tokens import piece_text

VLLM_VERSION = "0.33.0"
"""The release whose wire format is simulated."""

Handler = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    reader: BodyReader
    id_prefix: str = "chatcmpl"

    def read(self, body: bytes) -> GenerationRequest:
        return self.reader.chat(body)

    def shape(self, reply_id: str, created: int, model: str) -> ReplyShape:
        return ChatShape(reply_id, created, model)


@dataclass(frozen=True, slots=True)
class CompletionEndpoint:
    reader: BodyReader
    id_prefix: str = "cmpl"

    def read(self, body: bytes) -> GenerationRequest:
        return self.reader.completion(body)

    def shape(self, reply_id: str, created: int, model: str) -> ReplyShape:
        return CompletionShape(reply_id, created, model)


class SimulatorApp:
    """The ASGI application. *started_at* is Unix seconds."""

    def __init__(
        self,
        *,
        reader: BodyReader,
        generation: GenerationService,
        control: Control,
        faults: Faults,
        exposition: Exposition,
        started_at: float,
    ) -> None:
        self._reader = reader
        self._generation = generation
        self._faults = faults
        self._exposition = exposition
        self._started_at = started_at
        chat, completion = ChatEndpoint(reader), CompletionEndpoint(reader)
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/chat/completions": {"POST": lambda exchange: generation.serve(exchange, chat)},
            "/v1/completions": {"POST": lambda exchange: generation.serve(exchange, completion)},
            "/v1/models": {"GET": self._models},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/version": {"GET": self._version},
            "/load": {"GET": self._load},
            "/metrics": {"GET": self._metrics},
            "/control/faults": {"GET": control.show_fault, "POST": control.set_fault},
            "/control/requests": {"GET": control.show_requests},
            "/control/reset": {"POST": control.reset},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        if not exchange.path.startswith("/control/") and self._faults.whole_worker != "none":
            if self._faults.whole_worker == "refuse":
                exchange.connection.reset()
                await exchange.connection.wait_lost()
                return
            if exchange.path not in ("/v1/chat/completions", "/v1/completions"):  # those hang with an entry in the log
                await exchange.connection.wait_lost()
                return
        try:
            await self._handler(exchange)(exchange)
        except ApiError as error:
            await exchange.reply_error(error)
        except ClientGone:
            return

    def _handler(self, exchange: Exchange) -> Handler:
        methods = self._routes.get(exchange.path)
        if methods is None:
            raise ApiError(404, "Not Found")
        handler = methods.get(exchange.method)
        if handler is None:
            raise ApiError(405, "Method Not Allowed")
        return handler

    async def _models(self, exchange: Exchange) -> None:
        card = {
            "id": self._reader.model,
            "object": "model",
            "created": int(self._started_at),
            "owned_by": "vllm",
            "root": self._reader.model,
            "parent": None,
            "max_model_len": self._reader.context_tokens,
            "permission": [],
        }
        await exchange.reply_json({"object": "list", "data": [card]})

    async def _tokenize(self, exchange: Exchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        tokens, wants_texts = self._reader.tokenize(body)
        await exchange.reply_json(
            {
                "count": len(tokens),
                "max_model_len": self._reader.context_tokens,
                "tokens": list(tokens.ids),
                "token_strs": [piece_text(piece) for piece in tokens.pieces()] if wants_texts else None,
            }
        )

    async def _detokenize(self, exchange: Exchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        await exchange.reply_json({"prompt": self._reader.detokenize(body).text()})

    async def _health(self, exchange: Exchange) -> None:
        await exchange.reply(200, b"", b"")

    async def _version(self, exchange: Exchange) -> None:
        await exchange.reply_json({"version": VLLM_VERSION})

    async def _load(self, exchange: Exchange) -> None:
        await exchange.reply_json({"server_load": self._generation.in_flight})

    async def _metrics(self, exchange: Exchange) -> None:
        await exchange.reply(200, self._exposition.render(), b"text/plain; version=0.0.4; charset=utf-8")
