"""A receiver of alerts that does not answer costs requests nothing."""

from pathlib import Path
from typing import Any

import pytest

from simulator.server import serving
from tests.alert_receiver import SECRET, alert_receiver
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.governed import OWNER, bearer
from tests.e2e.stack import HELD_KEY, quick

USERS = 40
BUDGET = 100_000


def settings(folder: Path, worker: str, receivers: dict[str, str]) -> dict[str, Any]:
    """Each end user passes all thresholds of its budget with one request."""
    return {
        "server": {"port": 0},
        "admin": {"keys": [{"id": "root", "role": "owner", "secret": OWNER}]},
        "models": [{"name": "tiny", "workers": [{"url": worker}]}],
        "teams": [
            {
                "name": "blue",
                "keys": [{"id": "ci", "secret": HELD_KEY}],
                "user_limits": {"tokens_per_day": BUDGET},
            }
        ],
        "store": {"url": f"sqlite:///{folder / 'db'}"},
        "alerts": {
            "thresholds": [0.0001, 0.0002],
            "check_s": 0.05,
            "webhooks": [{"name": name, "url": url, "secret_env": "ALERT_SECRET"} for name, url in receivers.items()],
        },
    }


async def ask(gateway: GatewayProcess, user: str) -> int:
    content = f"{user} " * 60  # prompts that differ share no cached prefix, which would count less
    body = {"model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 3, "user": user}
    answer = await gateway.http.post("/v1/chat/completions", json=body, headers=bearer(HELD_KEY))
    return answer.status_code


@pytest.mark.parametrize("is_listening", [True, False])
async def test_requests_and_other_receivers_do_not_wait_for_a_receiver_that_is_down(
    tmp_path: Path, is_listening: bool
) -> None:
    """It holds at most one connection, whatever waits for it, and one of the two receivers gets all alerts."""
    async with serving(quick()) as worker, alert_receiver() as healthy, alert_receiver(status=None) as down:
        address = down.url if is_listening else "http://127.0.0.1:1/hook"
        wanted = settings(tmp_path, worker, {"down": address, "healthy": healthy.url})
        async with gateway_process(tmp_path, wanted, variables={"ALERT_SECRET": SECRET}) as gateway:
            await ask(gateway, "first")
            await healthy.accepted(2)
            if is_listening and not down.attempts:
                await down.attempted()
            statuses = [await ask(gateway, f"user-{number}") for number in range(USERS)]
            await healthy.accepted(2 * (1 + USERS))
            delivered = await gateway.metric('warmgate_alert_deliveries_total{outcome="delivered",receiver="healthy"}')

    thresholds: dict[str, list[float]] = {}
    for each in healthy.alerts():
        thresholds.setdefault(each["data"]["name"], []).append(each["data"]["threshold"])
    assert [200] * USERS == statuses
    assert {name: [0.0001, 0.0002] for name in ["first", *(f"user-{i}" for i in range(USERS))]} == thresholds
    assert 2 * (1 + USERS) == delivered
    assert ([], int(is_listening)) == (down.got, down.most_at_once)
