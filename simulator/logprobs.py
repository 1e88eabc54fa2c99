"""Made-up log probabilities for the tokens of an answer. The chosen token is always the most likely one.

The values depend only on a token and the preceding token, so streamed and whole answers have the same values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from simulator.sse import Json
from simulator.vocabulary import LETTERS, PIECE_BYTES, token_bytes, token_of_letters

MOST_ALTERNATIVES = 20  # vLLM's default of --max-logprobs
_WORDS = len(LETTERS) ** PIECE_BYTES
_STEP = 7919  # a prime that does not divide the number of words: alternatives differ


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Token with its log probability."""

    token: bytes
    logprob: float

    @property
    def text(self) -> str:
        return self.token.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    chosen: Likelihood
    others: Sequence[Likelihood]
    """Most likely alternatives to the token, the most likely one first."""
    offset: int
    """Number of characters of the answer before the token."""


def token_logprobs(ids: Sequence[int], *, before: int, others: int) -> list[TokenLogprobs]:
    """Return the log probabilities of the tokens *ids* after the token *before*, each with *others* alternatives."""
    reported = []
    offset = 0
    for token in ids:
        digest = blake2b(f"{before} {token}".encode(), digest_size=8).digest()
        probability = 0.5 + digest[0] / 512
        chosen = Likelihood(token_bytes(token), _log(probability))
        reported.append(TokenLogprobs(chosen, _others(digest, token, 1 - probability, others), offset))
        offset += len(chosen.text)
        before = token
    return reported


def _others(digest: bytes, chosen: int, left: float, count: int) -> list[Likelihood]:
    first = int.from_bytes(digest, "big")
    ids = (token_of_letters((first + number * _STEP) % _WORDS) for number in range(count + 1))
    possible = [token for token in ids if token != chosen][:count]
    return [Likelihood(token_bytes(token), _log(left / 2**rank)) for rank, token in enumerate(possible, start=1)]


def _log(probability: float) -> float:
    return round(math.log(probability), 6)


def chat_logprobs(tokens: Sequence[TokenLogprobs] | None, top: int) -> Json | None:
    """Return the log probabilities in the format for chats, with the *top* most likely tokens at each position."""
    if tokens is None:
        return None
    content = []
    for token in tokens:
        ranked = [token.chosen, *token.others][:top]
        content.append(_chat_token(token.chosen) | {"top_logprobs": [_chat_token(each) for each in ranked]})
    return {"content": content}


def _chat_token(likelihood: Likelihood) -> Json:
    return {"token": likelihood.text, "logprob": likelihood.logprob, "bytes": list(likelihood.token)}


def completion_logprobs(tokens: Sequence[TokenLogprobs] | None, top: int) -> Json | None:
    """Return the log probabilities in the format for completions. The chosen token is always among the *top* tokens."""
    if tokens is None:
        return None
    ranked = [[token.chosen, *token.others][: max(1, top)] for token in tokens]
    return {
        "text_offset": [token.offset for token in tokens],
        "token_logprobs": [token.chosen.logprob for token in tokens],
        "tokens": [token.chosen.text for token in tokens],
        "top_logprobs": [{each.text: each.logprob for each in likely} for likely in ranked],
    }
