"""A model whose worker a computes prompts and whose workers b and c generate answers, for tests of their hops."""

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.models.prefill_decode_plan import Flow, PrefillDecodePlan
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.proxy.attempts import Attempts
from gateway.proxy.retry_policy import RetryPolicy
from routing.disaggregation import ByDecodeLoad, Handover, HopRule
from routing.request import Request
from routing.retry_budget import RetryBudget
from routing.strategies.by_name import StrategiesByName
from tests.fakes.backends import Answers, Fake
from tests.gateway.examples import Clock, InGivenOrder, WatchedFleet, a_call, a_model, an_exchange
from tests.routing.examples import a_request, seeded

PARAMS = (
    b'{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"e","remote_request_id":"r",'
    b'"remote_block_ids":[[1,2]],"remote_host":"localhost","remote_port":5600}'
)
PREFILLED = (
    b'{"choices":[{"message":{"content":"H"},"finish_reason":"length"}],"usage":{"prompt_tokens":1000,'
    b'"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":16}},"kv_transfer_params":' + PARAMS + b"}"
)
FETCHED = (
    b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,'
    b'"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":992}}}'
)


class DividedModel:
    """With *prefill* workers first, then *decode* workers, called a, b, c ...; *rule* says when prompts are fetched."""

    def __init__(
        self,
        *prefill: Fake,
        decode: tuple[Fake, ...] = (),
        flow: Flow = "nixl",
        rule: HopRule = HopRule(),  # noqa: B008  # frozen
        replace_loopback: bool = True,
        retry_budget: RetryBudget | None = None,
        clock: Clock | None = None,
    ) -> None:
        decode = decode or (Answers(200, FETCHED),)
        self.fleet = WatchedFleet(len(prefill) + len(decode))
        names = [worker.id for worker in self.fleet]
        self.fleet.members.set_roles(
            {name: "prefill" if i < len(prefill) else "decode" for i, name in enumerate(names)},
        )
        self.handover = Handover()
        by_load = ByDecodeLoad(seeded(), self.handover, rule)
        self.prefill_decode = PrefillDecodePlan(
            flow,
            fleet=self.fleet,
            strategies=StrategiesByName("prefix_aware", lambda _: InGivenOrder()),
            by_load=by_load,
            handover=self.handover,
            rng=seeded(),
            replace_loopback=replace_loopback,
            bootstrap_ports={WorkerId("a"): 9000},
        )
        self.clock = clock or Clock()
        self.model: Model = a_model(
            *prefill,
            *decode,
            fleet=self.fleet,
            strategy=by_load,
            prefill_decode=self.prefill_decode,
            retry_budget=retry_budget,
            clock=self.clock,
        )

    def in_flight(self) -> dict[str, int]:
        return {worker.id: worker.in_flight for worker in self.fleet}


def divided_request(letters: str = "", *, prompt_tokens: float = 1000.0, streams: bool = False) -> Request:
    request = a_request(letters, prompt_tokens=prompt_tokens, streams=streams)
    return request.changed(divides=True)


class Trial:
    """One request over *divided*, up to its first answer or its failure, and then closed."""

    def __init__(
        self, divided: DividedModel, *, streams: bool = False, prompt_tokens: float = 1000.0, wait_s: float = 0.0
    ) -> None:
        self.divided = divided
        self.wait_s = wait_s
        self.streams = streams
        self.request = divided_request(prompt_tokens=prompt_tokens, streams=streams)
        self.exchange = an_exchange()
        self.loads: dict[str, int] = {}
        """While the first answer was at hand."""

    async def run(self) -> bytes:
        """Return the answer to the caller, or all of its stream."""
        model = self.divided.model
        attempts = Attempts(
            ENDPOINTS["/v1/chat/completions"],
            model,
            self.request,
            a_call(streams=self.streams),
            self.exchange,
            strip_usage=False,
            retry_policy=RetryPolicy(wait_s=self.wait_s),
            clock=self.divided.clock,
        )
        try:
            attempt = await attempts.first_answer()
            self.loads = self.divided.in_flight()
            result = attempt.first
            if attempt.observer is not None:
                while not attempt.reply.ended:
                    result += attempt.observer.feed(await attempt.reply.read())
                result += attempt.observer.finish()
            attempts.answered(attempt)
            return result
        finally:
            await attempts.aclose()
