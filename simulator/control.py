"""Test interface /control, which real engines do not have: inject faults, inspect requests, and reset the worker."""

from simulator.bodies import decode_body
from simulator.connection import Connection
from simulator.errors import ApiError, EngineDead
from simulator.exchange import HttpExchange
from simulator.faults import Fault, Faults
from simulator.freeze import Freeze
from simulator.generation import GenerationService
from simulator.journal import Journal
from simulator.ranks import Ranks
from simulator.sse import Spelling


class Control:
    def __init__(
        self,
        *,
        faults: Faults,
        freeze: Freeze,
        journal: Journal,
        ranks: Ranks,
        generation: GenerationService,
        open_connections: set[Connection],
    ) -> None:
        self._faults = faults
        self._freeze = freeze
        self._journal = journal
        self._ranks = ranks
        self._generation = generation
        self._open_connections = open_connections

    async def set_fault(self, exchange: HttpExchange) -> None:
        fault = decode_body(await exchange.body(), Fault)
        try:
            self._faults.set(fault)
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        if fault.mode == "freeze":
            self._freeze.begin(fault.seconds, when_over=lambda: self._faults.end("freeze"))
        else:
            self._freeze.end()
        self._ranks.slow_down(self._faults.slow_factor)
        if self._faults.is_engine_dead:
            self._ranks.fail(EngineDead())
        if self._faults.whole_worker == "refuse":
            for connection in self._open_connections - {exchange.connection}:
                connection.reset()
        await self.show_fault(exchange)

    async def show_fault(self, exchange: HttpExchange) -> None:
        await exchange.reply_json(self._faults.in_force)

    async def set_spelling(self, exchange: HttpExchange) -> None:
        """Set the formatting of the streams that will begin from now on."""
        self._generation.spelling = decode_body(await exchange.body(), Spelling)
        await self.show_spelling(exchange)

    async def show_spelling(self, exchange: HttpExchange) -> None:
        await exchange.reply_json(self._generation.spelling)

    async def show_requests(self, exchange: HttpExchange) -> None:
        await exchange.reply_json({"requests": self._journal.to_json()})

    async def reset(self, exchange: HttpExchange) -> None:
        """Clear the prefix cache and the journal of requests. Faults and stream formatting remain active."""
        self._ranks.clear()
        self._journal.clear()
        await exchange.reply_json({})
