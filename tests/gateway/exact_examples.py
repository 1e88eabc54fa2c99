"""Exact prompts without a tokenizer, for tests of what is done with them."""

from gateway.models.exact_prompts import ExactPrompts
from gateway.models.model import Model
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER


class FixedTokens:
    """A token_source that gives the same answer to all."""

    def __init__(self, outcome: Exact | NotExact) -> None:
        self.outcome = outcome
        self.asked: list[RawPrompt] = []

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        self.asked.append(prompt)
        return self.outcome


def follow(model: Model, outcome: Exact | NotExact) -> FixedTokens:
    """From now on *model* follows what its engines tell; who is asked for the tokens of its prompts."""
    token_source = FixedTokens(outcome)
    model.exact_prompts = ExactPrompts(
        token_source, model.fleet, hasher=TOKEN_HASHER, upstream_name=model.upstream_name, base=MODEL, adapter=None
    )
    return token_source
