"""Limits on the prompt tokens of batches that have not ended, by team and model, as in OpenAI's API.

Each batch has one record for each of its models. The store adds a record only if the team has room for it, so that
gateways that validate batches at the same time never exceed a limit together.
"""

from collections.abc import Callable, Mapping

from gateway.batch.plan import LineFault
from gateway.batch.records import Record, RecordStore

_ANY_COUNT = 2**62
_NEVER = 2.0**40
"""Time at which the records need work, in seconds since 1970."""

TokenCount = Callable[[str, int], int]
"""Function that returns the estimated tokens of prompts for a model, by the length of the prompts in bytes."""


class EnqueuedTokens:
    """Enqueued prompt tokens of all teams."""

    def __init__(
        self,
        store: RecordStore,
        *,
        max_tokens: int | None,
        by_model: Mapping[str, int],
        token_count: TokenCount,
        name_of: Callable[[str], str],
    ) -> None:
        """Create the limits. *max_tokens* is the limit of each team for each model, or None without a limit, and
        *by_model* has other limits for individual models. *name_of* returns the configured name of a model, so that
        aliases have no limits of their own.
        """
        self._store = store
        self._max_tokens = max_tokens
        self._by_model = by_model
        self._token_count = token_count
        self._name_of = name_of

    def tokens(self, prompt_bytes: Mapping[str, int]) -> dict[str, int]:
        """Return the estimated tokens of a batch by the configured name of the model, for the models with a limit."""
        found: dict[str, int] = {}
        for asked, size in prompt_bytes.items():
            model = self._name_of(asked)
            if self._limit_of(model) is not None:
                found[model] = found.get(model, 0) + self._token_count(asked, size)
        return found

    async def reserve(self, batch_id: str, team: str, tokens: Mapping[str, int]) -> LineFault | None:
        """Count the *tokens* of a batch of *team*, or return the fault if a limit has no room for them. A second call
        changes nothing.

        Raises:
            StoreUnavailable: if the store does not answer.
        """
        for model, count in tokens.items():
            limit = self._limit_of(model)
            if limit is None:
                continue
            record = Record(_id(batch_id, model), _owner(team, model), _NEVER, count, b"{}")
            if not await self._store.add(record, max_count=_ANY_COUNT, max_size=limit):
                await self.release(batch_id, team, tokens)
                return LineFault("token_limit_exceeded", _text(team, model, limit, count), None, None)
        return None

    async def release(self, batch_id: str, team: str, tokens: Mapping[str, int]) -> None:
        """Stop counting the *tokens* of a batch.

        Raises:
            StoreUnavailable: if the store does not answer.
        """
        for model in tokens:
            await self._store.remove(_owner(team, model), _id(batch_id, model))

    def _limit_of(self, model: str) -> int | None:
        return self._by_model.get(model, self._max_tokens)


def _text(team: str, model: str, limit: int, count: int) -> str:
    text = f"Enqueued token limit reached for {model} in team {team}. Limit: {limit:,} enqueued tokens. "
    if count > limit:
        return f"{text}The batch has about {count:,} tokens. Split it into several batches."
    return f"{text}Please try again once some in_progress batches have been completed."


def _id(batch_id: str, model: str) -> str:
    return f"{batch_id} {model}"


def _owner(team: str, model: str) -> str:
    """Return the name under which the store adds up the records of *team* and *model*. A team has no spaces."""
    return f"{team} {model}"
