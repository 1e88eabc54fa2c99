"""Who brings a prompt over."""

from gateway.disaggregation.bootstrap import BootstrapHop
from gateway.disaggregation.division import Flow
from gateway.disaggregation.hop import Hop, hop_of
from gateway.disaggregation.nixl import NixlHop
from gateway.endpoints.table import ENDPOINTS
from gateway.persistence import Persistence
from gateway.sse import StreamTail
from tests.fakes.backends import Answers
from tests.gateway.disaggregation.examples import DividedModel, divided_request
from tests.gateway.examples import an_exchange


def a_hop(flow: Flow) -> Hop:
    divided = DividedModel(Answers(), flow=flow)
    return hop_of(
        divided.model,
        divided.division,
        divided_request(),
        ENDPOINTS["/v1/chat/completions"],
        an_exchange(),
        persistence=Persistence(),
        clock=divided.clock,
    )


def test_each_flow_has_its_own() -> None:
    assert [NixlHop, BootstrapHop] == [type(a_hop("nixl")), type(a_hop("sglang"))]


def test_before_anything_is_known_a_stream_is_told_as_it_comes() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
    for flow in ("nixl", "sglang"):
        tail = a_hop(flow).tail(strip_usage=False, max_held=100)

        assert isinstance(tail, StreamTail)
        assert usage == tail.feed(usage)
