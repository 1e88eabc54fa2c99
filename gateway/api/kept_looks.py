"""Calls about kept responses as requests: counted by their caller's limits, booked in the ledger, and logged."""

from collections.abc import Callable

from gateway.models.model import Model
from gateway.proxy.admission import Admission
from gateway.proxy.completed_requests import CompletedRequests
from gateway.proxy.exchange import Exchange
from gateway.tenancy.teams.caller import Caller


class KeptLooks:
    """Begins and ends them. They use no tokens, so each counts as one request only."""

    def __init__(self, admission: Admission, log: CompletedRequests, *, clock: Callable[[], float]) -> None:
        """*log* has the observers that are shown them: their times are not those of completions."""
        self._admission = admission
        self._log = log
        self._clock = clock

    def begin(self, request_id: bytes, path: str, caller: Caller | None) -> Exchange:
        """A call to *path*, which names no response; to be ended once."""
        exchange = Exchange(request_id=request_id, path=path, started=self._clock())
        if caller is not None:
            exchange.team, exchange.key = caller.team_name, caller.key_id
        return exchange

    async def reserve(self, exchange: Exchange, caller: Caller | None, model: Model | None) -> None:
        """Reserve what the request uses of the limits of *caller*; *model* is None where it is not known.

        Raises:
            RateLimited, QuotaSpent: a limit has no room.
            StoreUnavailable: limits cannot be counted.
        """
        if model is not None:
            exchange.model = exchange.model_asked = model.name
        if caller is not None:
            await self._admission.reserve_look(exchange, caller, model)

    def end(self, exchange: Exchange) -> None:
        """Record the end of *exchange*, whose status and error are set."""
        now = self._clock()
        self._admission.settle(exchange, now)
        self._log.add(exchange, now)

    def settle(self) -> None:
        """Log completed requests at once."""
        self._log.settle()
