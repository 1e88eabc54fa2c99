"""LoRA adapters that each worker has loaded, with the time of their last use."""

from collections.abc import Container, Iterable


class AdapterResidency:
    """LoRA adapters that each worker has loaded, by worker address. Workers behind one address share their adapters.
    All times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, float]] = {}  # with the time of the first evidence
        self._gone: dict[tuple[str, str], float] = {}
        self._used: dict[tuple[str, str], float] = {}

    def holds(self, worker: str, adapter: str) -> bool | None:
        """Return whether *worker* has loaded the LoRA adapter, or None if this is unknown."""
        held = self._held.get(worker)
        if held is None:
            return False if (worker, adapter) in self._gone else None
        return adapter in held

    def held(self, worker: str) -> list[str]:
        """Return the names of the LoRA adapters that *worker* is known to have loaded."""
        return list(self._held.get(worker, ()))

    def listed(self, worker: str, adapters: Iterable[str], asked_at: float) -> None:
        """Record the full list of LoRA adapters of *worker*, reported at *asked_at*. Later events override the list."""
        former = self._held.get(worker, {})
        held = {name: since for name, since in former.items() if since > asked_at}
        for name in adapters:
            if self._gone.get((worker, name), float("-inf")) <= asked_at:
                held[name] = max(asked_at, former.get(name, asked_at))
        self._held[worker] = held
        for key in [key for key in self._gone if key[0] == worker and self._gone[key] <= asked_at]:
            del self._gone[key]
        for key in [key for key in self._used if key[0] == worker and key[1] not in held]:
            del self._used[key]

    def seen(self, worker: str, adapters: Iterable[str], at: float) -> None:
        """Record that *worker* reported requests for *adapters* at *at*. It might have loaded more adapters."""
        for name in adapters:
            if worker in self._held and self._gone.get((worker, name), float("-inf")) < at:
                self._held[worker].setdefault(name, at)

    def loaded(self, worker: str, adapter: str, now: float) -> None:
        """Record that *worker* has loaded the LoRA adapter."""
        self._gone.pop((worker, adapter), None)
        self._held.setdefault(worker, {})[adapter] = now
        self._used[worker, adapter] = now

    def lost(self, worker: str, adapter: str, now: float) -> None:
        """Record that *worker* lacks the LoRA adapter, which was unloaded or was refused in a request."""
        self._held.get(worker, {}).pop(adapter, None)
        self._used.pop((worker, adapter), None)
        self._gone[worker, adapter] = now

    def used(self, worker: str, adapter: str, now: float) -> None:
        """Record that a request for the LoRA adapter was sent to *worker*."""
        self._used[worker, adapter] = now

    def forget(self, workers: Container[str]) -> None:
        """Remove the LoRA adapter records of all workers except *workers*."""
        self._held = {worker: held for worker, held in self._held.items() if worker in workers}
        self._gone = {key: at for key, at in self._gone.items() if key[0] in workers}
        self._used = {key: at for key, at in self._used.items() if key[0] in workers}

    def oldest(self, worker: str, among: Container[str]) -> str | None:
        """Return the least recently used of the adapters *among* that *worker* has loaded, or None if it has none."""
        choice = [name for name in self._held.get(worker, ()) if name in among]
        return min(choice, key=lambda name: (self._used.get((worker, name), float("-inf")), name), default=None)
