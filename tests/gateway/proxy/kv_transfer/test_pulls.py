"""The source of a pull, in the request to a worker."""

import msgspec
import pytest

from gateway.backends.backend import Call
from gateway.models.pull_plan import PullAddress, PullPlan
from gateway.proxy.kv_transfer.pulls import pulling
from routing.pull import Pull
from tests.routing.examples import A, B

PLAN = PullPlan({A: PullAddress("10.0.0.5", 5711)})
PULL = Pull(A, 640.0, 0.1)


def a_call(body: bytes = b'{"model":"tiny"}') -> Call:
    return Call(method=b"POST", path=b"/v1/completions", headers=[], body=body, streams=False, model="tiny")


def test_the_source_is_added() -> None:
    sent = msgspec.json.decode(pulling(a_call(), PLAN, PULL).body)
    source = sent["kv_transfer_params"]["remote_kv_source"]

    assert "tiny" == sent["model"]
    assert ("10.0.0.5", 5711) == (source["remote_host"], source["remote_port"])


def test_every_attempt_has_another_id() -> None:
    bodies = {pulling(a_call(), PLAN, PULL).body for _ in range(10)}

    assert 10 == len(bodies)


@pytest.mark.parametrize(
    ("plan", "pull", "body"),
    [
        (None, PULL, b'{"model":"tiny"}'),
        (PLAN, None, b'{"model":"tiny"}'),
        (PLAN, Pull(B, 640.0, 0.1), b'{"model":"tiny"}'),
        (PLAN, PULL, b'{"kv_transfer_params":{"prompt_token_ids":[1]}}'),
    ],
    ids=["no plan", "nothing to pull", "unknown source", "a continued stream"],
)
def test_other_calls_stay_as_they_are(plan: PullPlan | None, pull: Pull | None, body: bytes) -> None:
    call = a_call(body)

    assert pulling(call, plan, pull) is call
