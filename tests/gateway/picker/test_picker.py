"""The contract of an endpoint picker (Gateway API Inference Extension, proposal 004), over a real gRPC connection."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc.aio
import pytest

from cache_index import WorkerId
from gateway.picker.http2.call import UNAVAILABLE
from gateway.picker.picker import scope_of
from routing.strategies.session import weight
from tests.gateway.examples import CHAT, CHAT_STREAM, HELLO, USAGE, WORLD, a_model, in_flight
from tests.gateway.picker.envoy import (
    BUFFERED,
    BUFFERED_PARTIAL,
    FULL_DUPLEX,
    JSON_TYPE,
    NONE,
    STREAMED,
    WAIT_S,
    At,
    Envoy,
    a_picker,
    picking,
)
from tests.gateway.picker.http2.peer import Peer
from tests.gateway.proxy.stage import Stage
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked

A, B, C = "10.0.0.1:8000", "10.0.0.2:8000", "[fd00::3]:8000"
DONE = b"data: [DONE]\n\n"
ANSWER = b'{"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}'


def a_stage(*addresses: str, **how: Any) -> Stage:
    """Workers a, b, c ... at *addresses*, which are tried in this order."""
    return Stage(a_model(*[At(address) for address in addresses or (A, B, C)]), **how)


async def accepted_at(envoy: Callable[..., Envoy]) -> str | None:
    """Return the destination of a request, or None if the picker is full."""
    try:
        return (await envoy().ask(path=b"/health", method=b"GET")).destination
    except grpc.aio.AioRpcError:
        return None


async def released(stage: Stage) -> dict[str, int]:
    """Return the running requests of each worker as soon as they have changed to none."""
    async with asyncio.timeout(WAIT_S):
        while any(in_flight(stage.model).values()) or stage.model.in_flight:
            await asyncio.sleep(0.01)
    return {worker: load for worker, load in in_flight(stage.model).items() if load}


class TestRequest:
    @pytest.mark.parametrize("mode", [FULL_DUPLEX, BUFFERED, None])
    async def test_envoy_gets_the_workers_in_their_order(self, mode: int | None) -> None:
        """Header and metadata have the same value. The body is that of the caller, byte for byte."""
        async with picking(a_stage()) as envoy:
            asked = await envoy(request_mode=mode).ask(CHAT[:20], CHAT[20:])

        assert (f"{A},{B},{C}", f"{A},{B},{C}", CHAT) == (asked.destination, asked.metadata, asked.body)

    async def test_a_buffered_body_may_be_partial_if_envoy_says_so(self) -> None:
        """Envoy then sends what it can keep, and the rest is unknown."""
        async with picking(a_stage()) as envoy:
            whole = await envoy(request_mode=BUFFERED_PARTIAL).ask(CHAT)
            part = await envoy(request_mode=BUFFERED_PARTIAL).ask(CHAT, is_partial=True)

        assert (f"{A},{B},{C}", CHAT) == (whole.destination, whole.body)
        assert (413, None) == (part.status, part.destination)
        assert part.error["message"] == (
            "The body is larger than the buffer of the proxy in front of the gateway, or has trailers "
            "(per_connection_buffer_limit_bytes of Envoy)."
        )

    @pytest.mark.parametrize(("length", "status"), [(b"101", 413), (b"100", None), (b"many", None)])
    async def test_a_body_that_envoy_cannot_keep_is_refused_by_its_length(
        self, length: bytes, status: int | None
    ) -> None:
        async with picking(a_stage(), max_buffered_bytes=100) as envoy:
            asked = envoy(request_mode=BUFFERED)
            await asked.send_head([JSON_TYPE, (b"content-length", length)])
            if status is None:
                await asked.read_continued()
            else:
                await asked.read_pick(has_body=True)

        assert status == asked.status
        if status is not None:
            assert asked.error["message"] == (
                "The body is larger than 100 bytes, which is what the proxy in front of the gateway keeps in memory "
                "(picker.max_buffered_bytes)."
            )

    async def test_a_streamed_body_may_be_longer_than_envoys_memory(self) -> None:
        async with picking(a_stage(), max_buffered_bytes=10) as envoy:
            asked = await envoy().ask(CHAT, headers=[JSON_TYPE, (b"content-length", b"%d" % len(CHAT))])

        assert CHAT == asked.body

    @pytest.mark.parametrize("mode", [FULL_DUPLEX, BUFFERED])
    async def test_envoy_may_get_the_scores_of_the_endpoints(self, mode: int) -> None:
        """A worker with requests costs more than the others. Envoy gets no scores by default."""
        stage = a_stage()
        async with picking(stage, endpoint_scores=True) as envoy:
            first = await envoy(request_mode=mode).ask(CHAT)
            second = await envoy(request_mode=mode).ask(CHAT)
        async with picking(a_stage()) as envoy:
            without = await envoy(request_mode=mode).ask(CHAT)

        assert first.scores is not None
        assert second.scores is not None
        assert {A, B, C} == first.scores.keys() == second.scores.keys()
        assert 0.0 < second.scores[A] < second.scores[B] == second.scores[C] == first.scores[A] < 1.0
        assert without.scores is None

    async def test_the_number_of_further_workers_has_a_limit(self) -> None:
        async with picking(a_stage(), max_fallbacks=1) as envoy:
            asked = await envoy().ask(CHAT)

        assert f"{A},{B}" == asked.destination

    async def test_a_long_body_is_sent_in_pieces(self) -> None:
        """Envoy accepts at most 64 kB in one message. A second end of the body is ignored."""
        body = CHAT[:-1] + b',"user":"' + b"x" * 200_000 + b'"}'
        async with picking(a_stage(max_body_bytes=300_000)) as envoy:
            asked = await envoy().ask(body[:65_536], body[65_536:])

        assert body == asked.body

    async def test_trailers_end_the_body(self) -> None:
        async with picking(a_stage()) as envoy:
            asked = await envoy().ask(CHAT, trailers=True)

        assert CHAT == asked.body

    async def test_credentials_and_steering_headers_do_not_reach_workers(self) -> None:
        headers = [JSON_TYPE, (b"authorization", b"Bearer x"), (b"x-prefiller-host-port", b"10.9.9.9:1")]
        async with picking(a_stage()) as envoy:
            asked = await envoy().ask(CHAT, headers=headers)

        assert ["authorization", "x-prefiller-host-port"] == asked.removed

    async def test_the_model_name_and_the_path_are_those_of_the_worker(self) -> None:
        """The content length follows the body."""
        stage = Stage(a_model(At(A), upstream_name="org/tiny"))
        headers = [JSON_TYPE, (b"content-length", b"%d" % len(CHAT))]
        async with picking(stage) as envoy:
            asked = await envoy().ask(CHAT, headers=headers, path=b"/v1//chat/completions?x=1")

        assert CHAT.replace(b"tiny", b"org/tiny") == asked.body
        assert ("/v1/chat/completions?x=1", str(len(CHAT) + 4)) == (asked.sent[":path"], asked.sent["content-length"])

    @pytest.mark.parametrize(
        ("subset", "destination"),
        [([B, C], f"{B},{C}"), (f"{C}, {B}", f"{B},{C}"), ([A, B, C, "10.0.0.9:1"], f"{A},{B},{C}")],
    )
    async def test_only_workers_of_the_subset_are_chosen(self, subset: Any, destination: str) -> None:
        """Gateways send it as a list, or as one string with commas."""
        async with picking(a_stage()) as envoy:
            asked = await envoy().ask(CHAT, subset=subset)

        assert destination == asked.destination

    @pytest.mark.parametrize("subset", [[], "", ["10.0.0.9:8000"]])
    async def test_a_subset_without_workers_is_status_503(self, subset: Any) -> None:
        async with picking(a_stage()) as envoy:
            asked = await envoy().ask(CHAT, subset=subset)

        assert (503, "no_worker_available", None) == (asked.status, asked.error["code"], asked.destination)

    async def test_no_ready_worker_is_status_503(self) -> None:
        stage = a_stage(A)
        [worker] = list(stage.model.fleet)
        stage.model.fleet.set_up(worker.id, up=False)
        stage.model.has_fleet = False
        async with picking(stage) as envoy:
            asked = await envoy().ask(CHAT)

        assert (503, "no_worker_available") == (asked.status, asked.error["code"])

    async def test_errors_of_the_caller_are_answered_by_envoy(self) -> None:
        """In OpenAI's format, with the status that the proxy uses."""
        async with picking(a_stage()) as envoy:
            unknown = await envoy().ask(CHAT.replace(b"tiny", b"huge"))
            long = await envoy().ask(b" " * 2000)

        assert (404, "model_not_found") == (unknown.status, unknown.error["code"])
        assert 413 == long.status

    async def test_a_full_picker_refuses_further_calls(self) -> None:
        """Envoy then does what it does without a picker. The picker accepts calls again after requests have ended."""
        async with picking(a_stage(), max_running=1) as envoy:
            first = await envoy().ask(CHAT)
            assert await accepted_at(envoy) is None
            await first.answered(200, ANSWER)
            await first.close()
            async with asyncio.timeout(WAIT_S):
                while await accepted_at(envoy) is None:
                    await asyncio.sleep(0.01)

    async def test_envoy_learns_that_a_full_picker_is_unavailable(self) -> None:
        """The status is that of a picker which is gone."""
        peer = Peer()
        call = peer.open().call
        async with asyncio.TaskGroup() as tasks:
            handler = a_picker(a_stage(), max_running=0).open(call, tasks)
        [trailers] = [payload for kind, _, _, payload in peer.read() if kind == 1]

        assert (None, True) == (handler, call.is_finished)
        assert b"grpc-status%d" % UNAVAILABLE in trailers

    async def test_other_body_modes_are_refused(self) -> None:
        async with picking(a_stage()) as envoy:
            asked = await envoy(request_mode=STREAMED).ask(CHAT)

        assert (500, True) == (asked.status, "FULL_DUPLEX_STREAMED" in asked.error["message"])


class TestAnswer:
    @pytest.mark.parametrize("mode", [FULL_DUPLEX, BUFFERED])
    async def test_an_answer_passes_with_its_usage(self, mode: int) -> None:
        stage = a_stage()
        async with picking(stage) as envoy:
            answered = await (await envoy(answer_mode=mode).ask(CHAT)).answered(200, ANSWER[:9], ANSWER[9:])

            assert (ANSWER, "a") == (answered.answer, answered.answer_headers["x-warmgate-worker"])
            assert {} == await released(stage)
        assert (7, 2, 200) == (stage.line["prompt_tokens"], stage.line["completion_tokens"], stage.line["status"])

    async def test_a_stream_passes_without_the_usage_that_the_caller_did_not_want(self) -> None:
        stage = a_stage()
        async with picking(stage) as envoy:
            asked = await envoy().ask(CHAT_STREAM)
            await asked.answered(200, HELLO, WORLD, USAGE, DONE, headers=[(b"content-type", b"text/event-stream")])

            assert HELLO + WORLD + DONE == asked.answer
            assert b'"include_usage":true' in (asked.body or b"")
            assert {} == await released(stage)
        assert (7, 2) == (stage.line["prompt_tokens"], stage.line["completion_tokens"])

    async def test_trailers_end_an_answer(self) -> None:
        async with picking(a_stage()) as envoy:
            answered = await (await envoy().ask(CHAT)).answered(200, ANSWER, trailers=True)

        assert ANSWER == answered.answer

    async def test_the_worker_that_served_holds_the_request(self) -> None:
        """Envoy's own retry may have sent the request to a further worker, or to one that was not listed."""
        stage = a_stage()
        async with picking(stage, is_conformance_test=True) as envoy:
            asked = await envoy().ask(CHAT)
            assert {"a": 1, "b": 0, "c": 0} == in_flight(stage.model)
            await asked.answered(200, ANSWER, served=f"{A},{C}")
            assert {} == await released(stage)

        assert ("c", C) == (stage.line["worker"], asked.answer_headers["x-conformance-test-served-endpoint"])

    async def test_a_failed_worker_is_status_503_for_the_caller(self) -> None:
        """In OpenAI's format. The gateway does not try another worker, because Envoy does."""
        stage = a_stage()
        async with picking(stage) as envoy:
            answered = await (await envoy().ask(CHAT)).answered(503, b"upstream connect error")
            assert {} == await released(stage)

        assert ("upstream_error", 1) == (answered.error["type"], stage.line["attempts"])
        assert (503, "UpstreamRefused") == (stage.line["status"], stage.line["error"])

    async def test_an_answer_without_a_body_becomes_an_answer_of_envoy(self) -> None:
        """The error of the gateway has a body, which Envoy cannot add to an answer without one."""
        async with picking(a_stage()) as envoy:
            answered = await (await envoy().ask(CHAT)).answered(500)

        assert (500, "upstream_error") == (answered.status, answered.error["type"])

    async def test_an_answer_that_does_not_pass_holds_its_worker_until_the_end(self) -> None:
        """Usage is then an estimate, and streams get no additional fields."""
        stage = a_stage()
        async with picking(stage) as envoy:
            asked = await envoy(answer_mode=NONE).ask(CHAT_STREAM)
            await asked.answered(200, HELLO)
            assert (CHAT_STREAM, {"a": 1, "b": 0, "c": 0}) == (asked.body, in_flight(stage.model))
            await asked.close()
            assert {} == await released(stage)

        assert (200, None) == (stage.line["status"], stage.line["error"])

    @pytest.mark.parametrize("phase", ["head", "body", "answer"])
    async def test_the_end_of_a_stream_releases_everything_once(self, phase: str) -> None:
        stage = a_stage()
        async with picking(stage) as envoy:
            asked = envoy(request_mode=BUFFERED)
            if phase == "head":
                await asked.send_head([JSON_TYPE])
                await asked.read_continued()
            else:
                await asked.ask(CHAT_STREAM)
                if phase == "answer":
                    await asked.begin_answer(HELLO)
            await asked.leave()
            async with asyncio.timeout(WAIT_S):
                while not stage.lines:
                    await asyncio.sleep(0.01)
            assert {} == await released(stage)

        assert (499 if phase != "answer" else 200, "CallerGone") == (stage.line["status"], stage.line["error"])


class TestKeys:
    async def test_a_caller_without_a_key_is_refused(self) -> None:
        async with at_work(a_tenancy(a_team())) as tenancy, picking(a_stage(tenancy=tenancy)) as envoy:
            asked = await envoy().ask(CHAT)
            other = await envoy().ask(path=b"/health", method=b"GET")

        assert (401, "invalid_api_key", 404) == (asked.status, asked.error["code"], other.status)

    async def test_a_limit_is_status_429(self) -> None:
        team = a_team(limits={"requests_per_minute": 1})
        async with at_work(a_tenancy(team)) as tenancy, picking(a_stage(tenancy=tenancy)) as envoy:
            first = await envoy().ask(CHAT, headers=[JSON_TYPE, AUTHORIZATION])
            second = await envoy().ask(CHAT, headers=[JSON_TYPE, AUTHORIZATION])

        assert (f"{A},{B},{C}", 429) == (first.destination, second.status)
        assert "retry-after" in second.answer_headers

    async def test_the_ledger_has_the_usage_that_the_caller_saw(self) -> None:
        async with at_work(a_tenancy(a_team())) as tenancy, picking(a_stage(tenancy=tenancy)) as envoy:
            for body, pieces in ((CHAT, (ANSWER,)), (CHAT_STREAM, (HELLO, USAGE, DONE))):
                asked = await envoy().ask(body, headers=[JSON_TYPE, AUTHORIZATION])
                await asked.answered(200, *pieces)
            records = await booked(tenancy, 2)

        assert [(7, 2, "ok", "blue")] * 2 == [
            (each.prompt_tokens, each.completion_tokens, each.outcome, each.team) for each in records
        ]


class TestOtherRequests:
    async def test_a_request_without_a_prompt_goes_to_any_worker(self) -> None:
        """Each worker in turn, within the subset. The answer passes unchanged."""
        async with picking(a_stage()) as envoy:
            asked = [await envoy().ask(path=b"/health", method=b"GET", subset=[A, B]) for _ in range(4)]
            answered = await asked[0].answered(200, b"fine", headers=[(b"content-type", b"text/plain")])

        assert [B, A, B, A] == [each.destination for each in asked]
        assert b"fine" == answered.answer

    async def test_a_session_decides_without_the_body(self) -> None:
        """Envoy gets the workers of the session after the headers, in the order of the strategy session."""
        headers = [JSON_TYPE, (b"content-length", b"500")]
        async with picking(a_stage()) as envoy:
            asked = [
                await envoy(request_mode=NONE).ask(CHAT, headers=[*headers, (name, value)], subset=subset)
                for name, value, subset in (
                    (b"x-session-id", b"one", None),
                    (b"session-id", b"one", None),
                    (b"x-session-id", b"two", None),
                    (b"x-session-id", b"one", [B, C]),
                )
            ]
            answered = await asked[0].answered(200, b"fine", headers=[(b"content-type", b"text/plain")])

        order = sorted((A, B, C), key=lambda each: weight("one", WorkerId("abc"[(A, B, C).index(each)])), reverse=True)
        two = sorted((A, B, C), key=lambda each: weight("two", WorkerId("abc"[(A, B, C).index(each)])), reverse=True)
        assert [",".join(order)] * 2 + [",".join(two)] == [each.destination for each in asked[:3]]
        assert ",".join(each for each in order if each != A) == asked[3].destination
        assert "content-length" not in asked[0].sent
        assert b"fine" == answered.answer

    async def test_the_number_of_workers_of_a_session_has_a_limit(self) -> None:
        async with picking(a_stage(), max_fallbacks=0) as envoy:
            asked = await envoy(request_mode=NONE).ask(CHAT, headers=[JSON_TYPE, (b"x-session-id", b"one")])

        assert asked.destination in {A, B, C}

    async def test_headers_must_agree_without_the_body(self) -> None:
        async with picking(a_stage()) as envoy:
            twice = [(b"x-session-id", b"one"), (b"session-id", b"two")]
            two = await envoy(request_mode=NONE).ask(CHAT, headers=[JSON_TYPE, *twice])
            unknown = await envoy(request_mode=NONE).ask(CHAT, headers=[JSON_TYPE, (b"x-gateway-model-name", b"huge")])
            known = await envoy(request_mode=NONE).ask(CHAT, headers=[JSON_TYPE, (b"x-gateway-model-name", b"tiny")])

        assert (400, 404, None) == (two.status, unknown.status, known.status)

    async def test_a_body_that_the_gateway_does_not_know_passes(self) -> None:
        async with picking(a_stage(A)) as envoy:
            asked = await envoy().ask(b"anything", path=b"/invocations")

        assert (A, b"anything") == (asked.destination, asked.body)

    async def test_a_conformance_test_names_the_endpoints(self) -> None:
        header = (b"test-epp-endpoint-selection", f"{B}, {C}".encode())
        async with picking(a_stage(), is_conformance_test=True) as envoy:
            asked = await envoy().ask(CHAT, headers=[JSON_TYPE, header])
            other = await envoy().ask(path=b"/", method=b"GET", headers=[header], subset=[A, C])
        async with picking(a_stage()) as envoy:
            ignored = await envoy().ask(CHAT, headers=[JSON_TYPE, header])

        assert (f"{B},{C}", C, f"{A},{B},{C}") == (asked.destination, other.destination, ignored.destination)

    async def test_the_gateway_lists_its_models_itself(self) -> None:
        async with picking(a_stage()) as envoy:
            asked = await envoy().ask(path=b"/v1/models", method=b"GET")

        assert (200, b'{"path":"/v1/models"}') == (asked.status, asked.answer)


def test_the_scope_is_that_of_the_caller() -> None:
    headers = [(b":method", b"post"), (b":path", b"/chat/completions?a=b"), (b":authority", b"h"), (b"x", b"1")]
    scope = scope_of(headers, ("fd00::1", 55))

    assert ("POST", "/v1/chat/completions", b"/v1/chat/completions", b"a=b") == (
        *(scope["method"], scope["path"], scope["raw_path"], scope["query_string"]),
    )
    assert ([(b"host", b"h"), (b"x", b"1")], ("fd00::1", 55)) == (scope["headers"], scope["client"])
    assert scope_of([], None)["client"] is None
