"""Alerts in Redis or Valkey, which all gateways share. All Redis keys have one hash tag, the name of the store.

warmgate:{alerts}:last                number of the last alert
warmgate:{alerts}:log                 hash: number -> JSON
warmgate:{alerts}:receivers           hash: receiver -> number of the last alert that it has got
warmgate:{alerts}:sender              id of the gateway that delivers alerts; expires with its lease
warmgate:{alerts}:marks:PERIOD:TEAM   set of the marks of alerts; expires some days after the period
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from gateway.storage.redis_link import RedisLink
from gateway.tenancy.alerts.alert_store import MAX_ALERTS, MAX_MARKS, Added, NewEntry, StoredAlert, Waiting

_SCRIPT = Path(__file__).with_name("redis_alerts.lua").read_text(encoding="utf-8")


class RedisAlerts:
    """Store of alerts in the Redis that *link* connects to; see `AlertStore`. Stores with another *name* hold other
    messages.
    """

    def __init__(
        self, link: RedisLink, *, name: str = "alerts", max_alerts: int = MAX_ALERTS, max_marks: int = MAX_MARKS
    ) -> None:
        self._link = link
        self._base = f"warmgate:{{{name}}}:"
        self._max_alerts = max_alerts
        self._max_marks = max_marks

    async def begin(self, receivers: Sequence[str]) -> None:
        await self._run("begin", *receivers)

    async def add(self, alert: NewEntry) -> Added:
        most = self._max_marks if alert.is_by_caller else 0
        arguments = (alert.mark, alert.body, int(alert.until), self._max_alerts, most)
        found: bytes = await self._run("add", *arguments, marks=f"{alert.period}:{alert.team}")
        return cast("Added", found.decode("ascii"))

    async def waiting(self, receiver: str, count: int) -> Waiting:
        removed, *found = await self._run("waiting", receiver, count, self._max_alerts)
        pairs = zip(found[::2], found[1::2], strict=True)
        return Waiting([StoredAlert(number, body) for number, body in pairs], removed)

    async def delivered(self, receiver: str, number: int) -> None:
        await self._run("delivered", receiver, number)

    async def claim(self, sender: str, lease_s: float) -> bool:
        return bool(await self._run("claim", sender, round(lease_s * 1000)))

    async def _run(self, what: str, *arguments: Any, marks: str = "") -> Any:
        keys = [self._base + each for each in ("last", "log", "receivers", "sender", f"marks:{marks}")]
        return await self._link.ask(lambda client: client.eval(_SCRIPT, len(keys), *keys, what, *arguments))
