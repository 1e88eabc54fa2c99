"""Endpoints /tokenize and /detokenize, which convert prompts to tokens and back without generating an answer."""

from dataclasses import dataclass

from simulator.bodies import BodyReader
from simulator.exchange import HttpExchange
from simulator.vocabulary import token_bytes


@dataclass(frozen=True, slots=True)
class Tokenization:
    reader: BodyReader

    async def tokenize(self, exchange: HttpExchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        tokens, wants_texts = self.reader.tokenize(body)
        await exchange.reply_json(
            {
                "count": len(tokens),
                "max_model_len": self.reader.context_tokens,
                "tokens": list(tokens.ids),
                "token_strs": [_shown(token) for token in tokens.ids] if wants_texts else None,
            }
        )

    async def detokenize(self, exchange: HttpExchange) -> None:
        body = await exchange.body()
        exchange.require_json()
        await exchange.reply_json({"prompt": self.reader.detokenize(body).text()})


def _shown(token: int) -> str:
    """Return the text of a single token, with U+FFFD for incomplete characters."""
    return token_bytes(token).decode("utf-8", "replace")
