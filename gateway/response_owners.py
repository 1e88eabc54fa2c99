"""Who keeps which response: OpenAI's Responses API has a memory, and that memory is one worker's."""

from collections import OrderedDict

import msgspec

from cache_index import WorkerId


class Owner(msgspec.Struct, frozen=True):
    model: str
    """The configured name."""
    worker: WorkerId
    team: str | None = None
    """Whose it is; None where there are no teams."""


class ResponseOwners:
    """Remembers the worker of each response, the *most* recently used ones. About 300 bytes each."""

    def __init__(self, *, most: int = 100_000) -> None:
        self._most = most
        self._owners: OrderedDict[str, Owner] = OrderedDict()

    def remember(self, response_id: str, owner: Owner) -> None:
        self._owners[response_id] = owner
        self._owners.move_to_end(response_id)
        if len(self._owners) > self._most:
            self._owners.popitem(last=False)

    def find(self, response_id: str) -> Owner | None:
        """None if this gateway has not passed the response on, or too long ago. To be found is to be used."""
        owner = self._owners.get(response_id)
        if owner is not None:
            self._owners.move_to_end(response_id)
        return owner

    def peek(self, response_id: str) -> Owner | None:
        """As `find`, without counting as a use."""
        return self._owners.get(response_id)
