"""The choice of a transfer."""

import pytest

from gateway.models.prefill_decode_plan import Flow
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.sse import ChunkObserver
from gateway.proxy.kv_transfer.bootstrap import BootstrapTransfer
from gateway.proxy.kv_transfer.kv_transfer import KvTransfer, kv_transfer_for
from gateway.proxy.kv_transfer.nixl import NixlTransfer
from gateway.proxy.retry_policy import RetryPolicy
from tests.fakes.backends import Answers
from tests.gateway.examples import an_exchange
from tests.gateway.proxy.kv_transfer.examples import DividedModel, divided_request

pytestmark = pytest.mark.interpreted


def a_transfer(flow: Flow) -> KvTransfer:
    divided = DividedModel(Answers(), flow=flow)
    return kv_transfer_for(
        divided.model,
        divided.prefill_decode,
        divided_request(),
        ENDPOINTS["/v1/chat/completions"],
        an_exchange(),
        retry_policy=RetryPolicy(),
        clock=divided.clock,
    )


def test_each_flow_has_its_transfer() -> None:
    assert [NixlTransfer, BootstrapTransfer] == [type(a_transfer("nixl")), type(a_transfer("sglang"))]


def test_a_stream_passes_unchanged_before_the_count_is_known() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
    for flow in ("nixl", "sglang"):
        observer = a_transfer(flow).observer(strip_usage=False, max_held=100)

        assert isinstance(observer, ChunkObserver)
        assert usage == observer.feed(usage)
