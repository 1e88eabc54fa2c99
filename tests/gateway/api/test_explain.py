"""What an operator is reported of a request that is not sent."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from cache_index import WorkerId
from gateway.api.admin_access import AdminAccess, AdminKey
from gateway.api.explain import Explainer, router
from gateway.models.model import Model
from gateway.models.response_affinity.owners import ResponseOwner, ResponseOwners
from gateway.protocol.body import parse_chat
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import GatewayError
from gateway.workers.kv_events.feed import Trust
from routing.booking import Ending, Outcome
from routing.dispatcher import Immediate
from routing.strategies import NAMES, STRATEGIES
from routing.strategies.by_name import StrategiesByName
from tests.bodies import bodies_up_to
from tests.fakes.backends import Answers, Fake
from tests.gateway.asgi import Caller
from tests.gateway.examples import CHAT, Clock, WatchedFleet, a_model, the_models
from tests.routing.examples import seeded

LONG = CHAT.replace(b"hello", b"What did the mouse say to the cat? " * 40)
A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")
EXPLAIN = "/warmgate/explain"


class Stage:
    """A model with workers a, b and c, and its explanations."""

    def __init__(
        self,
        strategy: str = "prefix_aware",
        *,
        allows_strategy_header: bool = False,
        fallback: Fake | None = None,
        max_body_bytes: int = 10_000,
        streams: Mapping[WorkerId, Trust] | None = None,
    ) -> None:
        self.clock = Clock(0.0)
        self.fleet = WatchedFleet(3)
        self.workers = [Answers(), Answers(), Answers()]
        rng = seeded()
        self.model: Model = a_model(
            *self.workers,
            fleet=self.fleet,
            clock=self.clock,
            fallback=fallback,
            strategy_name=strategy,
            allows_strategy_header=allows_strategy_header,
            dispatcher=Immediate(self.fleet, StrategiesByName(strategy, lambda name: STRATEGIES[name](rng))),
        )
        self.owners = ResponseOwners(most=2)
        self.api = FastAPI()
        self.api.include_router(router)
        models = the_models(self.model, aliases={"tiny": ["gpt-4o"]})
        self.api.state.admin_access = AdminAccess([AdminKey("grafana", "viewer", "the-admins")])
        self.api.state.refused_logins = None
        self.api.state.explainer = Explainer(
            ENDPOINTS, models, self.owners, stream_state=(streams or {}).get, bodies=bodies_up_to(max_body_bytes)
        )
        self.api.add_exception_handler(GatewayError, _in_openais_shape)

    async def post(self, body: bytes = CHAT, *, query: str = "", **headers: str) -> httpx.Response:
        said = {"content-type": "application/json", "authorization": "Bearer the-admins"}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.api), base_url="http://localhost") as client:
            return await client.post(EXPLAIN + query, content=body, headers=said)

    async def explain(self, body: bytes = CHAT, *, query: str = "", **headers: str) -> Any:
        response = await self.post(body, query=query, **headers)
        assert 200 == response.status_code, response.text
        return response.json()

    async def fault(self, body: bytes = CHAT, *, query: str = "", **headers: str) -> tuple[int, str, str | None]:
        """Status, message and param of what is refused."""
        response = await self.post(body, query=query, **headers)
        error = response.json()["error"]
        return response.status_code, error["message"], error["param"]

    async def serve(self, body: bytes = CHAT, *, ending: Ending = Ending.ANSWERED) -> str:
        """Send *body* as the proxy does, and answer at once; the worker."""
        dispatch = await self.model.dispatch_queue.admit(self.model.request(parse_chat(body), lambda _: None, None))
        assert dispatch.booking is not None
        self.fleet.bookings.release(dispatch.booking, Outcome(ending), self.clock.now)
        return dispatch.booking.worker


async def _in_openais_shape(_: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayError)
    return Response(error.to_body(), error.status)


# ---- what is reported


async def test_the_whole_answer() -> None:
    stage = Stage()
    home = await stage.serve(LONG)
    cold, gone = (worker for worker in (A, B, C) if worker != home)
    stage.fleet.set_up(gone, up=False)
    stage.clock.now = 600.0
    idle = {"backlog_s": 0.0, "pending": 0, "decodes": 0, "busy_share": 0.0}

    assert {
        "route": None,
        "model": "tiny",
        "configured_strategy": "prefix_aware",
        "strategy": "prefix_aware",
        "effective_strategy": "prefix_aware",
        "reason": "hit",
        "fallbacks": [],
        "prompt_bytes": 1406,
        "prompt_tokens": 351.5,
        "prompt_blocks": 21,
        "exact_tokens": False,
        "waits_for": None,
        "workers": [
            {
                "worker": home,
                "rank": 1,
                "hit_blocks": 21,
                "hit_tokens": 336.0,
                "hit_source": "predicted",
                "hit_load_s": 0.0,
                "pull": None,
                "evicts_s": 0.0,
                "displaces_s": 0.0,
                "zone_penalty_s": 0.0,
                "kv_stream": None,
                "load": idle,
                "predicted_ttft_s": 0.0255,
                "cost_s": 0.0255,
                "admits": True,
                "why_not": None,
            },
            {
                "worker": cold,
                "rank": 2,
                "hit_blocks": 0,
                "hit_tokens": 0.0,
                "hit_source": "predicted",
                "hit_load_s": 0.0,
                "pull": None,
                "evicts_s": 0.0,
                "displaces_s": 0.0,
                "zone_penalty_s": 0.0,
                "kv_stream": None,
                "load": idle,
                "predicted_ttft_s": 0.3615,
                "cost_s": 0.3615,
                "admits": True,
                "why_not": None,
            },
            {
                "worker": gone,
                "rank": None,
                "hit_blocks": 0,
                "hit_tokens": 0.0,
                "hit_source": "predicted",
                "hit_load_s": 0.0,
                "pull": None,
                "evicts_s": 0.0,
                "displaces_s": 0.0,
                "zone_penalty_s": 0.0,
                "kv_stream": None,
                "load": idle,
                "predicted_ttft_s": None,
                "cost_s": None,
                "admits": True,
                "why_not": "down",
            },
        ],
    } == await stage.explain(LONG)


async def test_how_far_each_engine_can_be_relied_on_is_reported() -> None:
    """In what it reports its cache, also of a worker that is no candidate; none where no one listens."""
    stage = Stage(streams={A: "live", B: "stale"})
    stage.fleet.set_up(B, up=False)
    found = await stage.explain()

    assert {"a": "live", "b": "stale", "c": None} == {w["worker"]: w["kv_stream"] for w in found["workers"]}


async def test_nothing_of_the_prompt_is_reported() -> None:
    response = await Stage("session").post(LONG, x_session_id="ann's secret")

    assert b"mouse" not in response.content
    assert b"secret" not in response.content


async def test_a_worker_that_is_no_candidate_says_why_not() -> None:
    """Asleep, or with an open breaker."""
    stage = Stage()
    stage.fleet.set_asleep(A, asleep=True)
    for _ in range(5):
        await fail_on(stage, B)
    found = await stage.explain()

    assert ("only_candidate", "cold") == (found["effective_strategy"], found["reason"])
    assert {"a": "asleep", "b": "breaker open", "c": None} == {w["worker"]: w["why_not"] for w in found["workers"]}


async def test_a_response_is_gone_on_with_by_its_worker() -> None:
    """No other is a candidate; nor is it a use of the response, which the next two would else outlive."""
    stage = Stage()
    for response_id in ("resp_1", "resp_2"):
        stage.owners.remember(response_id, ResponseOwner("tiny", B))
    body = b'{"model":"tiny","input":"And then?","previous_response_id":"resp_1"}'
    found = await stage.explain(body, query="?path=/v1/responses")
    elsewhere = "not the worker that keeps the response"

    assert [("b", None), ("a", elsewhere), ("c", elsewhere)] == [(w["worker"], w["why_not"]) for w in found["workers"]]
    stage.owners.remember("resp_3", ResponseOwner("tiny", B))
    assert stage.owners.peek("resp_1") is None


async def test_with_no_one_there_the_fallback_would_answer() -> None:
    """Its name is reported, if there is one."""
    for fallback in (Answers(), None):
        stage = Stage(fallback=fallback)
        for worker in (A, B, C):
            stage.fleet.set_up(worker, up=False)
        found = await stage.explain()

        assert ("none", "none") == (found["effective_strategy"], found["reason"])
        assert ([] if fallback is None else [fallback.id]) == found["fallbacks"]
        assert [None, None, None] == [worker["rank"] for worker in found["workers"]]


async def test_the_session_counts() -> None:
    stage = Stage("session")
    await stage.explain()
    bob = await stage.explain(x_session_id="bob")
    user = await stage.explain(CHAT[:-1] + b',"user":"bob"}')

    assert "random" == (await stage.explain())["effective_strategy"]
    assert "session" == bob["effective_strategy"]
    assert [w["worker"] for w in bob["workers"]] == [w["worker"] for w in user["workers"]]


async def test_a_model_is_named_as_it_is_configured() -> None:
    assert "tiny" == (await Stage().explain(CHAT.replace(b"tiny", b"gpt-4o")))["model"]


async def test_the_strategy_that_the_header_names_is_explained() -> None:
    """Where the model allows it; else the header counts for nothing, as it would for the request itself."""
    allowed = await Stage(allows_strategy_header=True).explain(x_warmgate_strategy="round_robin")
    ignored = await Stage().explain(x_warmgate_strategy="round_robin")

    assert ("prefix_aware", "round_robin", "round_robin") == (
        allowed["configured_strategy"],
        allowed["strategy"],
        allowed["effective_strategy"],
    )
    assert ("prefix_aware", "random") == (ignored["strategy"], ignored["effective_strategy"])


# ---- every endpoint


BODIES = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": b'{"model":"tiny","prompt":"Once"}',
    "/v1/responses": b'{"model":"tiny","input":"Once"}',
    "/v1/messages": b'{"model":"tiny","max_tokens":5,"messages":[{"role":"user","content":"Once"}]}',
    "/v1/messages/count_tokens": b'{"model":"tiny","messages":[{"role":"user","content":"Once"}]}',
    "/v1/embeddings": b'{"model":"tiny","input":"Once"}',
    "/tokenize": b'{"model":"tiny","prompt":"Once"}',
}


@pytest.mark.parametrize("path", BODIES)
async def test_bodies_of_other_endpoints_are_explained(path: str) -> None:
    """The path that the body is meant for stands in the query."""
    assert 3 == len((await Stage().explain(BODIES[path], query=f"?path={path}"))["workers"])


async def test_a_form_is_explained() -> None:
    """With the content-type that its endpoint takes."""
    form = b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\ntiny\r\n--x--\r\n'
    found = await Stage().explain(
        form, query="?path=/v1/audio/transcriptions", content_type="multipart/form-data; boundary=x"
    )

    assert "tiny" == found["model"]


# ---- what is refused


@pytest.mark.parametrize(
    ("status", "param", "message", "query", "body"),
    [
        (400, "path", "'path' must be one of /v1/chat/completions, ", "?path=/v1/images", CHAT),
        (400, "path", "'path' must be one of /v1/chat/completions, ", "?path=", CHAT),
        (400, "messages", "'messages' must be a list of at least one message", "", b'{"model":"tiny"}'),
        (400, "prompt", "'prompt' must be a string", "?path=/v1/completions", CHAT),
        (400, None, "JSON is malformed", "", b"{"),
        (404, "model", "The model 'big' does not exist or is not served here", "", CHAT.replace(b"tiny", b"big")),
        (
            413,
            None,
            "The body is larger than 10000 bytes (server.max_body_bytes). Send a smaller body.",
            "",
            CHAT + b" " * 10_000,
        ),
    ],
)
async def test_what_is_wrong_is_reported_as_for_a_completion(
    status: int, param: str | None, message: str, query: str, body: bytes
) -> None:
    """Status, field and sentence, in OpenAI's shape."""
    found = await Stage().fault(body, query=query)

    assert (status, param) == (found[0], found[2])
    assert found[1].startswith(message)


@pytest.mark.parametrize("authorization", ["", "Bearer another", "the-admins"])
async def test_an_admin_key_is_required(authorization: str) -> None:
    """Where the workers are and how busy they are is nothing for every caller."""
    response = await Stage().post(authorization=authorization)

    assert 401 == response.status_code
    assert b"worker" not in response.content


async def test_another_content_type_is_refused() -> None:
    assert (415, "The content-type header must be application/json.", None) == await Stage().fault(
        content_type="text/plain"
    )


async def test_an_unknown_strategy_in_the_header_is_refused() -> None:
    """With the names that there are."""
    found = await Stage(allows_strategy_header=True).fault(x_warmgate_strategy="best")

    assert (
        400,
        f"The header 'x-warmgate-strategy' must be one of {', '.join(NAMES)}",
        "x-warmgate-strategy",
    ) == found


async def test_a_response_whose_worker_left_cannot_be_gone_on_with() -> None:
    """The request would learn the same."""
    stage = Stage()
    stage.owners.remember("resp_1", ResponseOwner("tiny", WorkerId("gone")))
    body = b'{"model":"tiny","input":"And then?","previous_response_id":"resp_1"}'

    assert (404, "previous_response_id") == (await stage.fault(body, query="?path=/v1/responses"))[::2]


async def test_a_caller_that_leaves_amid_its_body_is_no_fault() -> None:
    """No one is there to be reported."""
    headers = [(b"authorization", b"Bearer the-admins")]
    caller = Caller(CHAT[:10], path=EXPLAIN, headers=headers, finishes_body=False)
    caller.leave()
    await caller.call(Stage().api)

    assert (200, b"") == (caller.status, caller.body)


# ---- nothing is changed


async def test_nothing_is_sent_and_nothing_is_booked() -> None:
    """No worker hears of it, none has more to do, and none is believed to hold more."""
    stage = Stage()
    for _ in range(3):
        found = await stage.explain(LONG)
        assert "cold" == found["reason"]

    assert [[], [], []] == [worker.calls for worker in stage.workers]
    assert [] == stage.fleet.booked
    assert [0, 0, 0] == [worker.in_flight for worker in stage.fleet]
    assert 0 == stage.model.in_flight


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_the_next_request_goes_where_the_explanation_said(strategy: str) -> None:
    """Round robin's turn and the luck of ties included, for as long as nothing else happens."""
    stage = Stage(strategy)
    for letter in b"abcabcaabbcc":
        body = CHAT.replace(b"hello", bytes([letter]) * 500)
        first = [(await stage.explain(body))["workers"][0]["worker"] for _ in range(2)]

        assert first == [await stage.serve(body)] * 2


async def test_a_breakers_probe_is_left_to_a_request() -> None:
    """After ten seconds one may go there; explanations do not use that up."""
    stage = Stage()
    for _ in range(5):
        await fail_on(stage, A)
    stage.clock.now = 10.0
    found = [await stage.explain() for _ in range(3)]

    assert [{None}] * 3 == [{worker["why_not"] for worker in each["workers"]} for each in found]
    assert [True] * 3 == [worker.breaker.allows(10.0) for worker in stage.fleet]


async def fail_on(stage: Stage, worker: WorkerId) -> None:
    request = stage.model.request(parse_chat(CHAT), lambda _: None, None)
    candidates = [c for c in stage.fleet.candidates(request, stage.clock.now) if c.worker == worker]
    booking = stage.fleet.bookings.book(request, candidates[0], stage.clock.now)
    assert booking is not None
    stage.fleet.bookings.release(booking, Outcome(Ending.FAILED), stage.clock.now)
