"""Exact tokens of a prompt, or the reason why they are unknown."""

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
"""Reason why the exact tokens of a prompt are unknown. Reasons are metric labels, so there are only a few.

* ``endpoint``: requests to the endpoint have no prompt, or one that the gateway does not support
* ``malformed``: the engine will refuse the body, or interprets it in a nonstandard way
* ``unsupported``: a field or a value changes the prompt in a way that the gateway does not know
* ``own_template``: the request contains a chat template
* ``template``: the model's chat template refuses the conversation, or cannot be run
* ``truncated``: the request asks the engine to truncate the prompt
* ``embeds``: the prompt consists of embeddings
* ``elsewhere``: a worker stores the earlier turns of the conversation
* ``slow``: tokenization did not finish in time; it continues, for the next turn
* ``busy``: too many other prompts are being tokenized
* ``unavailable``: neither the gateway nor an engine can tokenize the prompt
* ``disagrees``: the engine returns different tokens for prompts with the same features
* ``engine``: the engine refused to tokenize the prompt, or its answer is malformed
"""


class Exact(msgspec.Struct, frozen=True, gc=False):
    """Tokens of a prompt as the engine will see them."""

    ids: TokenIds
    """All token ids of the prompt. Those after the first `exact_tokens` ids only give the prompt's length."""
    exact_tokens: int
    """Number of leading tokens that are certain. With an image or a second prompt, not all tokens are certain."""

    @property
    def tokens(self) -> int:
        return len(self.ids) // TOKEN_BYTES

    @property
    def exact_ids(self) -> TokenIds:
        """Leading token ids that are certain, used to look up cached prefixes."""
        return self.ids[: self.exact_tokens * TOKEN_BYTES]


class NotExact(msgspec.Struct, frozen=True, gc=False):
    """Prompt whose exact tokens are unknown, so that the gateway uses hashes of the prompt's text."""

    reason: Reason


class Unknowable(Exception):
    """The exact tokens of a request cannot be determined. Token sources return `NotExact` for such requests."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class UnusableFolder(Exception):
    """The folder of a model cannot be used for tokenization. The message contains the reason."""
