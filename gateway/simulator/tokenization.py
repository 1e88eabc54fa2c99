"""/tokenize and /detokenize: what a prompt is to the engine, without running it."""

from dataclasses import dataclass

from gateway.simulator.bodies import BodyReader
from gateway.simulator.exchange import Exchange
from gateway.simulator.tokens import piece_text


@dataclass(frozen=True, slots=True)
class Tokenization:
    reader: BodyReader

    async def tokenize(self, exchange: Exchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        tokens, wants_texts = self.reader.tokenize(body)
        await exchange.reply_json(
            {
                "count": len(tokens),
                "max_model_len": self.reader.context_tokens,
                "tokens": list(tokens.ids),
                "token_strs": [piece_text(piece) for piece in tokens.pieces()] if wants_texts else None,
            }
        )

    async def detokenize(self, exchange: Exchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        await exchange.reply_json({"prompt": self.reader.detokenize(body).text()})
