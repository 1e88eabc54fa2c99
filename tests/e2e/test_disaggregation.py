"""Prefill and decode workers behind the gateway, over real sockets, by both flows; and what their deaths cost."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.answers import answer
from simulator.bodies import BodyReader, ChatPrompt
from simulator.event_options import EventOptions
from simulator.tokenizer_folder import write_tokenizer
from tests.e2e.dividing import LONG, Divided, body_of, divided, reported_by_stream
from tests.e2e.test_kv_aware import all_published, heard

FLOWS = ["nixl", "sglang"]
REMOTE = {"min_uncached_tokens": 64}
"""Settings by which a prefill worker computes every long prompt. By cost, these fast workers would soon compute their
own."""
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


async def until(met: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await met():
            await asyncio.sleep(0.005)


def words_of(response: httpx.Response) -> str:
    assert 200 == response.status_code, response.text
    reported: str = response.json()["choices"][0]["message"]["content"]
    return reported


def words_of_one_worker(prompt: str = LONG, *, max_tokens: int = 8) -> str:
    """What a worker that does whole requests answers: it is the same everywhere."""
    tokens = BodyReader("tiny", 1_000_000).chat_tokens(ChatPrompt(messages=[{"role": "user", "content": prompt}]))
    return answer(tokens, max_tokens=max_tokens).tokens.text(skip_marks=True)


@pytest.mark.parametrize("flow", FLOWS)
async def test_one_worker_computes_the_prompt_and_another_answers(flow: str) -> None:
    async with divided("prefill", "decode", flow=flow) as served:
        response = await served.ask()
        [line] = await served.stack.lines(1)
        [prefill] = await served.stack.served(served.workers[0])
        [decode] = await served.stack.served(served.workers[1])

        assert words_of_one_worker() == words_of(response)
        assert served.workers == [
            response.headers["x-warmgate-prefill-worker"],
            response.headers["x-warmgate-worker"],
        ]
        assert served.workers == [line["prefill_worker"], line["worker"]]
        assert (2526, 0) == (prefill["prompt_tokens"], prefill["cached_tokens"])
        assert (2526, 2512) == (decode["prompt_tokens"], decode["cached_tokens"])  # all but its last, partial block
        assert {line["request_id"]} == {
            value for half in (prefill, decode) for name, value in half["headers"] if name == "x-request-id"
        }
        assert {'{location="remote",model="tiny"}': 1.0} == await served.stack.metric("warmgate_prefills_total")


async def test_vllm_is_asked_for_one_token_and_its_blocks() -> None:
    async with divided("prefill", "decode") as served:
        await served.ask(max_completion_tokens=9, min_tokens=3, **USAGE)
        [prefill] = [body_of(request) for request in await served.stack.served(served.workers[0])]
        [decode] = [body_of(request) for request in await served.stack.served(served.workers[1])]

        assert (False, 1, 1, 0, None) == (
            prefill["stream"],
            prefill["max_tokens"],
            prefill["max_completion_tokens"],
            prefill["min_tokens"],
            prefill["stream_options"],
        )
        assert prefill["kv_transfer_params"]["do_remote_decode"] is True
        assert (True, 9, 3) == (decode["stream"], decode["max_completion_tokens"], decode["min_tokens"])
        params = decode["kv_transfer_params"]
        assert (True, False, "127.0.0.1") == (
            params["do_remote_prefill"],
            params["do_remote_decode"],
            params["remote_host"],  # the engine reports localhost, where another machine would find nothing
        )


async def test_sglang_gets_the_same_request_twice() -> None:
    async with divided("prefill", "decode", flow="sglang") as served:
        await served.ask(**USAGE)
        [prefill] = [body_of(request) for request in await served.stack.served(served.workers[0])]
        [decode] = [body_of(request) for request in await served.stack.served(served.workers[1])]

        assert prefill == decode
        assert 0 <= prefill["bootstrap_room"] < 2**63
        assert "127.0.0.1" == prefill["bootstrap_host"]


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("streams", [False, True])
async def test_cached_tokens_are_those_of_the_worker_that_computed(flow: str, streams: bool) -> None:
    """The decode worker finds all that it fetched in its cache; nothing of that was saved."""
    async with divided("prefill", "decode", flow=flow) as served:
        await served.ask(LONG)
        response = await served.ask(f"{LONG} and more of it {LONG[:4000]}", **(USAGE if streams else {}))
        usage = reported_by_stream(response.text)[1] if streams else response.json()["usage"]
        _, line = await served.stack.lines(2)
        cached = (await served.stack.served(served.workers[0]))[1]["cached_tokens"]

        assert 2512 == cached  # all full blocks of the first prompt
        assert (cached, cached) == (usage["prompt_tokens_details"]["cached_tokens"], line["cached_tokens"])


async def test_a_short_prompt_stays_where_it_is_answered() -> None:
    async with divided("prefill", "decode", reported={"min_uncached_tokens": 1000}) as served:
        short = await served.ask("hello")
        first = await served.ask()
        again = await served.ask()  # the decode worker holds it now

        assert [False, True, False] == ["x-warmgate-prefill-worker" in r.headers for r in (short, first, again)]
        assert {'{location="here",model="tiny"}': 2.0, '{location="remote",model="tiny"}': 1.0} == (
            await served.stack.metric("warmgate_prefills_total")
        )


async def test_what_cannot_be_fetched_twice_stays_whole() -> None:
    async with divided("prefill", "decode") as served:
        response = await served.ask(n=2)

        assert 2 == len(response.json()["choices"])
        assert [] == await served.states(0)


async def test_workers_in_sglangs_rooms_meet_once_for_each_answer() -> None:
    async with divided("prefill", "decode", flow="sglang") as served:
        response = await served.ask(n=2)

        assert 2 == len(response.json()["choices"])
        assert (["finished"], ["finished"]) == (await served.states(0), await served.states(1))


async def test_a_prefill_worker_killed_between_the_two_steps_costs_no_one_anything() -> None:
    """It has answered, and no one has fetched yet: the decode worker finds no one, and computes the prompt."""
    async with divided("prefill", "decode") as served:
        await served.stack.fault(served.workers[1], "freeze", seconds=30)
        asking = asyncio.ensure_future(served.ask())
        await until(lambda: _is(served, 0, ["finished"]))
        await served.end(0)
        await served.stack.fault(served.workers[1], "none")
        response = await asking
        [decode] = await served.stack.served(served.workers[1])

        assert words_of_one_worker() == words_of(response)
        assert (2526, 0, "finished") == (decode["prompt_tokens"], decode["cached_tokens"], decode["state"])


@pytest.mark.parametrize("flow", FLOWS)
async def test_a_prefill_worker_killed_at_its_work_costs_no_one_anything(flow: str) -> None:
    async with divided("prefill", "prefill", "decode", flow=flow, speed=1, prefill_tokens_per_s=4000) as served:
        asking = asyncio.ensure_future(served.ask(**USAGE))
        first = await _busy(served, 0, 1)
        await served.end(first)
        words, usage = reported_by_stream((await asking).text)
        [line] = await served.stack.lines(1)

        assert words_of_one_worker() == words
        assert (served.workers[1 - first], 200, None) == (line["prefill_worker"], line["status"], line["error"])
        assert 2526 == usage["prompt_tokens"]


@pytest.mark.parametrize("flow", FLOWS)
async def test_twenty_callers_notice_nothing_of_a_prefill_worker_that_is_killed(flow: str) -> None:
    """Half of their prompts are at its work, waiting there, or between the two steps."""
    prompts = [f"{number} {LONG[:2000]}" for number in range(20)]
    async with divided("prefill", "prefill", "decode", "decode", flow=flow, speed=1) as served:
        asking = [asyncio.ensure_future(served.ask(prompt, **USAGE)) for prompt in prompts]
        await until(lambda: _some_are(served, 0, "finished"))
        await served.end(0)
        answers = [reported_by_stream((await asked).text)[0] for asked in asking]
        lines = await served.stack.lines(len(prompts))

    assert [words_of_one_worker(prompt) for prompt in prompts] == answers
    assert {(200, None)} == {(line["status"], line["error"]) for line in lines}


async def test_without_any_prefill_worker_vllms_decode_worker_computes() -> None:
    """No health check runs after the start, so only the request itself finds that the worker is gone."""
    async with divided("prefill", "decode", groups={"health": {"interval_s": 3600}}) as served:
        await served.end(0)
        response = await served.ask()

        assert words_of_one_worker() == words_of(response)
        assert "x-warmgate-prefill-worker" not in response.headers
        assert {'{location="failed",model="tiny"}': 1.0} == await served.stack.metric("warmgate_prefills_total")


async def test_without_any_prefill_worker_sglangs_workers_cannot_answer() -> None:
    async with divided("prefill", "decode", flow="sglang") as served:
        await served.end(0)
        response = await served.ask()

        assert (503, "no_worker_available") == (response.status_code, response.json()["error"]["code"])


async def test_a_prefill_worker_that_fails_is_replaced_by_another() -> None:
    async with divided("prefill", "prefill", "decode", reported=REMOTE) as served:
        await served.stack.fault(served.workers[0], "status", status=500)
        answers = [await served.ask(f"{number} {LONG}") for number in range(4)]

        assert {200} == {response.status_code for response in answers}
        assert {served.workers[1]} == {response.headers["x-warmgate-prefill-worker"] for response in answers}


async def test_what_is_wrong_with_a_request_its_caller_hears_from_the_decode_worker() -> None:
    for flow in FLOWS:
        async with divided("prefill", "decode", flow=flow) as served:
            response = await served.ask(LONG * 40)

            assert 400 == response.status_code
            assert "maximum context length" in response.json()["error"]["message"]


async def test_a_decode_worker_that_fails_is_replaced_by_another() -> None:
    """What the first of them learned of blocks is spent: the second computes the prompt."""
    async with divided("prefill", "decode", "decode", reported=REMOTE) as served:
        await served.stack.fault(served.workers[1], "status", status=500)
        responses = [await served.ask(f"{number} {LONG}") for number in range(6)]

        assert {200} == {response.status_code for response in responses}
        assert {served.workers[2]} == {response.headers["x-warmgate-worker"] for response in responses}


@pytest.mark.parametrize("flow", FLOWS)
async def test_a_stream_goes_on_where_its_prompt_is_fetched_again(flow: str) -> None:
    continues, reported = {"continuation": "tokens"}, REMOTE if flow == "nixl" else {}
    async with divided("prefill", "decode", "decode", flow=flow, model=continues, reported=reported) as served:
        await served.stack.fault(served.workers[1], "abort_mid_stream", after_tokens=5)
        continued = 0
        for number in range(20):  # whichever comes first to the worker that breaks off
            response = await served.ask(f"{number} {LONG}", max_tokens=16, **USAGE)
            line = (await served.stack.lines(number + 1))[-1]
            continued = line["continued"]
            if continued:
                break

        assert (1, 200, None) == (continued, line["status"], line["error"])
        assert served.workers[::2] == [line["prefill_worker"], line["worker"]]
        assert words_of_one_worker(f"{number} {LONG}", max_tokens=16) == reported_by_stream(response.text)[0]


@pytest.mark.parametrize("flow", FLOWS)
async def test_a_caller_that_leaves_takes_both_halves_away(flow: str) -> None:
    async with divided("prefill", "decode", flow=flow, speed=1, prefill_tokens_per_s=100) as served:
        asking = asyncio.ensure_future(served.ask(**USAGE))
        await until(lambda: _is(served, 0, ["running"]))
        asking.cancel()
        await until(lambda: _is(served, 0, ["aborted"]))
        await until(lambda: _is_idle(served))


async def test_it_is_explained_who_would_do_which_half() -> None:
    admin = {"admin": {"keys": [{"role": "viewer", "secret": "secret"}]}}
    async with divided("prefill", "decode", groups=admin) as served:
        body = {"model": "tiny", "messages": [{"role": "user", "content": LONG}]}
        headers = {"authorization": "Bearer secret"}
        reported = (await served.stack.http.post("/warmgate/explain", json=body, headers=headers)).json()
        prefill = reported["prefill"]

        assert [(served.workers[1], None), (served.workers[0], "a prefill worker")] == [
            (each["worker"], each["why_not"]) for each in reported["workers"]
        ]
        assert ("nixl", True, True, served.workers[1]) == (
            prefill["flow"],
            prefill["divides"],
            prefill["hops"],
            prefill["decode_worker"],
        )
        assert [served.workers[0]] == [each["worker"] for each in prefill["workers"]]


async def test_teams_pay_for_what_was_computed_and_not_for_what_was_fetched() -> None:
    """Their requests queue for decode workers, and are booked with the prefill worker's cached tokens."""
    secret = "a-secret-of-this-team"
    teams = {"teams": [{"name": "blue", "keys": [{"id": "ci", "secret": secret}]}]}
    price = {"price": {"input_usd": 1000, "cached_input_usd": 0, "output_usd": 0}}
    async with divided("prefill", "decode", flow="sglang", model=price, groups=teams) as served:
        served.stack.http.headers["authorization"] = f"Bearer {secret}"
        first, again = await served.ask(), await served.ask()
        lines = await served.stack.lines(2)
        spent = (await served.stack.http.get("/v1/usage")).text

        assert [200, 200] == [first.status_code, again.status_code]
        assert [0, 2512] == [line["cached_tokens"] for line in lines]
        assert "2.54" in spent  # 2,526 tokens of the first prompt, and 14 of the second, at 0.001 dollars


async def _is(served: Divided, number: int, states: list[str]) -> bool:
    return states == await served.states(number)


async def _some_are(served: Divided, number: int, state: str) -> bool:
    return state in await served.states(number)


async def _is_idle(served: Divided) -> bool:
    return {0.0} == set((await served.stack.metric("warmgate_worker_in_flight")).values())


async def _busy(served: Divided, *numbers: int) -> int:
    """The first of those workers that computes something."""
    found: list[int] = []

    async def look() -> bool:
        found.extend([number for number in numbers if "running" in await served.states(number)])
        return bool(found)

    await until(look)
    return found[0]


async def test_prompts_go_where_engines_tell_that_they_are_held(tmp_path: Path) -> None:
    """Whatever was sent there: the decode worker reports that it has forgotten, so it fetches again."""
    write_tokenizer(tmp_path)
    model = {"strategy": "kv_aware", "tokenizer": {"path": str(tmp_path), "budget_s": 5}}
    events = EventOptions(replay_port=0)
    soon = {"advanced": {"kv_prediction_s": 0.001}, "kv_events": {"check": False}}
    async with divided("prefill", "prefill", "decode", model=model, groups=soon, kv_events=events) as served:
        await all_published(served.stack, 3)
        first = await served.ask()
        await heard(served.stack)
        await served.stack.http.post(f"{served.workers[2]}/control/reset")
        await heard(served.stack)
        again = await served.ask()
        _, line = await served.stack.lines(2)

        assert first.headers["x-warmgate-prefill-worker"] == again.headers["x-warmgate-prefill-worker"]
        assert ("reported", "hit", "kv_aware", 2512) == (
            *(line["hit_source"], line["reason"], line["strategy"], line["cached_tokens"]),
        )
        assert 2512 == int(again.headers["x-warmgate-hit-tokens"])
