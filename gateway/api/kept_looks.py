"""Accounting for requests that read or cancel stored responses, in limits, ledger and request log."""

from collections.abc import Callable

from gateway.models.model import Model
from gateway.proxy.admission import Admission
from gateway.proxy.completed_requests import CompletedRequests
from gateway.proxy.exchange import Exchange
from gateway.tenancy.teams.caller import Caller


class KeptLooks:
    """Accounting for requests about stored responses. Each of them counts as one request without tokens."""

    def __init__(self, admission: Admission, log: CompletedRequests, *, clock: Callable[[], float]) -> None:
        """Report finished requests to *log*, without metrics, because completion times do not apply to them."""
        self._admission = admission
        self._log = log
        self._clock = clock

    def begin(self, request_id: bytes, path: str, caller: Caller | None) -> Exchange:
        """Return a new exchange for a request to *path*, which is a path without the response ID.

        Call `end` once for each exchange.
        """
        exchange = Exchange(request_id=request_id, path=path, started=self._clock())
        if caller is not None:
            exchange.team, exchange.key = caller.team_name, caller.key_id
        return exchange

    async def reserve(self, exchange: Exchange, caller: Caller | None, model: Model | None) -> None:
        """Count a request against the limits of *caller*. Pass None as *model* if the model is unknown.

        Raises:
            RateLimited, QuotaSpent: if a limit is exceeded.
            StoreUnavailable: if limits cannot be counted.
        """
        if model is not None:
            exchange.model = exchange.model_asked = model.name
        if caller is not None:
            await self._admission.reserve_look(exchange, caller, model)

    def end(self, exchange: Exchange) -> None:
        """Record the end of *exchange*. Call this after its status and error have been set."""
        now = self._clock()
        self._admission.settle(exchange, now)
        self._log.add(exchange, now)

    def settle(self) -> None:
        """Write buffered log lines of finished requests immediately."""
        self._log.settle()
