"""What asking for the exact tokens of a prompt gives: the ids, or why there are none. Data only."""

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
"""Why exact tokens are not known; few values, for a metric's label.

* ``endpoint``: the endpoint has no prompt of tokens, or none that is known here
* ``malformed``: the engine will refuse the body, or reads it by rules of its own
* ``unsupported``: a field or a value changes the prompt in a way that is not known
* ``own_template``: the request brings its chat template
* ``template``: the model's chat template refuses the conversation, or cannot be run
* ``truncated``: the engine is asked to cut the prompt
* ``embeds``: the prompt is embeddings
* ``elsewhere``: the conversation so far is kept by a worker
* ``slow``: not ready in time; what was begun goes on, for the next turn
* ``busy``: too much else is being tokenised
* ``unavailable``: nothing here, and no engine, can tell
* ``disagrees``: the engine was found to make other tokens of such prompts
* ``engine``: the engine refused the question, or its answer makes no sense
"""


class Exact(msgspec.Struct, frozen=True, gc=False):
    """The prompt as the engine will see it."""

    ids: TokenIds
    """All tokens of the prompt; beyond `exact_tokens` they only tell how long it is."""
    exact_tokens: int
    """How many leading tokens are certain. Less than all where an image stands, or a second prompt begins."""

    @property
    def tokens(self) -> int:
        return len(self.ids) // TOKEN_BYTES

    @property
    def exact_ids(self) -> TokenIds:
        """Those that a cached prefix may be looked up by."""
        return self.ids[: self.exact_tokens * TOKEN_BYTES]


class NotExact(msgspec.Struct, frozen=True, gc=False):
    """Text blocks must do."""

    reason: Reason


class Unknowable(Exception):
    """The exact tokens of this request cannot be known here; caught where `NotExact` is answered."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
