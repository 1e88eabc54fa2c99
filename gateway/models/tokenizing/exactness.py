"""Exact tokens of a prompt, or the reason why they are not known. Data only."""

from typing import Literal

import msgspec

from cache_index.tokens import TOKEN_BYTES, TokenIds

Reason = Literal[
    "endpoint",
    "malformed",
    "unsupported",
    "own_template",
    "template",
    "truncated",
    "embeds",
    "elsewhere",
    "slow",
    "busy",
    "unavailable",
    "disagrees",
    "engine",
]
"""Reason why exact tokens are not known; few values, for a metric's label.

* ``endpoint``: the endpoint has no prompt of tokens, or none that is known here
* ``malformed``: the engine will refuse the body, or reads it by rules of its own
* ``unsupported``: a field or a value changes the prompt in a way that is not known
* ``own_template``: the request brings its chat template
* ``template``: the model's chat template refuses the conversation, or cannot be run
* ``truncated``: the engine is asked to cut the prompt
* ``embeds``: the prompt is embeddings
* ``elsewhere``: the conversation so far is kept by a worker
* ``slow``: not ready in time; the work goes on, for the next turn
* ``busy``: too many other prompts are being tokenized
* ``unavailable``: neither the gateway nor an engine can tokenize it
* ``disagrees``: the engine makes other tokens of such prompts
* ``engine``: the engine refused the question, or its answer is malformed
"""


class Exact(msgspec.Struct, frozen=True, gc=False):
    """The prompt as the engine will see it."""

    ids: TokenIds
    """All tokens of the prompt; those beyond `exact_tokens` only count for its length."""
    exact_tokens: int
    """Leading tokens that are certain. Fewer than all if there is an image or a second prompt."""

    @property
    def tokens(self) -> int:
        return len(self.ids) // TOKEN_BYTES

    @property
    def exact_ids(self) -> TokenIds:
        """Ids by which a cached prefix may be looked up."""
        return self.ids[: self.exact_tokens * TOKEN_BYTES]


class NotExact(msgspec.Struct, frozen=True, gc=False):
    """A prompt without exact tokens: hashes of its text are used."""

    reason: Reason


class Unknowable(Exception):
    """The exact tokens of this request cannot be known here; caught where `NotExact` is answered."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class UnusableFolder(Exception):
    """No exact tokens can come from a model's folder; the text says why."""
