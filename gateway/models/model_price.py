"""Price of a model's tokens, either fixed or derived from the price of a GPU hour."""

from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.quota.plan import CostUsd
from routing.fleet import Fleet


class ModelPrice:
    """Price per token: either *price*, or a price computed from *gpu_hour_usd* and the measured speeds of *fleet*."""

    def __init__(
        self,
        price: Price | None,
        gpu_hour_usd: float | None,
        fleet: Fleet,
        fallbacks: Fallbacks,
        *,
        batch_discount: float = 0.0,
    ) -> None:
        self._price = price or Price()
        self._gpu_hour_usd = gpu_hour_usd
        self._fleet = fleet
        self._fallbacks = fallbacks
        self.batch_share = 1.0 - batch_discount
        """Share of the price that lines of batches pay if a worker answers them."""

    @property
    def current(self) -> Price:
        """Return the current price of the model's tokens."""
        if self._gpu_hour_usd is None:
            return self._price
        prefill_s, decode_s = self._fleet.token_times()
        return Price.per_gpu_hour(self._gpu_hour_usd, prefill_s_per_token=prefill_s, decode_s_per_token=decode_s)

    @property
    def cost_usd(self) -> CostUsd:
        """Function that returns the cost of a request by its tokens. For speed, a fixed price is called directly."""
        return self._price.cost_usd if self._gpu_hour_usd is None else self._current_cost_usd

    def max_usd(self, prompt: float, cached: float, completion: float) -> float:
        """Return the cost in US dollars on the most expensive backend that can answer, for reservations."""
        own = self.current.cost_usd(prompt, cached, completion)
        return max(own, *(each.price().cost_usd(prompt, cached, completion) for each in self._fallbacks.in_order))

    def _current_cost_usd(self, prompt: float, cached: float, completion: float) -> float:
        return self.current.cost_usd(prompt, cached, completion)
