"""Workers that do a half, asked as a gateway asks them, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from engine_model.blocks import BlockPool
from engine_model.request import EngineRequest
from simulator.options import SimulatorOptions
from simulator.roles import HalfOptions, RoleName, adopt
from simulator.server import serving
from tests.e2e.dividing import bootstrap_port

PROMPT = "e" * 400
"""100 tokens: six full blocks of 16, and four."""
WANTED = {"do_remote_decode": True, "do_remote_prefill": False}


class Worker:
    def __init__(self, url: str, client: httpx.AsyncClient, life: AsyncExitStack) -> None:
        self.url = url
        self._client = client
        self.life = life

    async def ask(self, **body: Any) -> httpx.Response:
        asked = {"prompt": PROMPT, "max_tokens": 4, "ignore_eos": True, **body}
        return await self._client.post(f"{self.url}/v1/completions", json=asked)

    async def reported(self, **body: Any) -> dict[str, Any]:
        response = await self.ask(**body)
        assert 200 == response.status_code, response.text
        reported: dict[str, Any] = response.json()
        return reported

    async def states(self) -> list[str]:
        journal = (await self._client.get(f"{self.url}/control/requests")).json()["requests"]
        return [entry["state"] for entry in journal]


@asynccontextmanager
async def workers(
    *roles: RoleName, dialect: str = "vllm", half: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[list[Worker]]:
    async with AsyncExitStack() as exits:
        client = await exits.enter_async_context(httpx.AsyncClient(timeout=60, verify=False))
        found = []
        for role in roles:
            life = await exits.enter_async_context(AsyncExitStack())
            reported = SimulatorOptions(
                port=0, role=role, half=HalfOptions(**(half or {})), **{"speed": 0, "dialect": dialect, **options}
            )
            found.append(Worker(await life.enter_async_context(serving(reported)), client, life))
        yield found


def cached(reported: Mapping[str, Any]) -> int:
    tokens: int = reported["usage"]["prompt_tokens_details"]["cached_tokens"]
    return tokens


class TestVllm:
    async def test_who_is_asked_for_a_remote_decode_says_where_the_blocks_are(self) -> None:
        async with workers("prefill", half={"side_channel_host": "10.0.0.5"}) as [prefill]:
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]

        assert (True, False, "10.0.0.5", 100, 6, "pull") == (
            params["do_remote_prefill"],
            params["do_remote_decode"],
            params["remote_host"],
            params["remote_num_tokens"],
            len(params["remote_block_ids"][0]),
            params["transfer_mode"],
        )
        assert {"remote_engine_id", "remote_request_id", "remote_port", "tp_size", "pp_size", "dcp_size"} < set(params)
        assert {"remote_blocks_expiry_time", "remote_registration_generation"} < set(params)

    async def test_who_is_not_asked_says_nothing(self) -> None:
        async with workers("prefill", "both") as both:
            for worker in both:
                assert None is (await worker.reported())["kv_transfer_params"]
            assert None is (await both[1].reported(kv_transfer_params=WANTED))["kv_transfer_params"]

    async def test_what_was_computed_is_fetched(self) -> None:
        """All but the rest of a last block; and the answer is that of one worker that does both."""
        async with workers("prefill", "decode", "both") as [prefill, decode, both]:
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]
            reported = await decode.reported(kv_transfer_params=params)

            assert 96 == cached(reported)
            assert (await both.reported())["choices"][0]["text"] == reported["choices"][0]["text"]

    async def test_it_is_fetched_once(self) -> None:
        async with workers("prefill", "decode", "decode") as [prefill, first, second]:
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]

            assert [96, 0] == [cached(await worker.reported(kv_transfer_params=params)) for worker in (first, second)]

    async def test_what_is_held_is_not_evicted_until_it_is_fetched(self) -> None:
        async with workers("prefill", "decode", blocks=8) as [prefill, decode]:
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]
            waiting = asyncio.ensure_future(prefill.reported(prompt="t" * 160, max_tokens=1))
            while await prefill.states() != ["finished", "running"]:
                await asyncio.sleep(0.001)
            await decode.reported(kv_transfer_params=params)

            assert 40 == (await waiting)["usage"]["prompt_tokens"]

    @pytest.mark.e2e
    async def test_what_no_one_fetched_in_time_is_computed(self) -> None:
        async with workers("prefill", "decode", half={"lease_s": 0.01}) as [prefill, decode]:
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]
            await asyncio.sleep(0.05)  # longer than the lease, which is what is tested

            assert 0 == cached(await decode.reported(kv_transfer_params=params))

    async def test_what_a_dead_worker_held_is_computed(self) -> None:
        async with workers("prefill", "decode") as [prefill, decode]:
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]
            await prefill.life.aclose()

            assert 0 == cached(await decode.reported(kv_transfer_params=params))

    @pytest.mark.e2e
    async def test_what_is_held_already_is_not_brought_again(self) -> None:
        async with workers("prefill", "decode", half={"transfer_us_per_token": 2.5e5}, speed=1) as [prefill, decode]:
            await decode.reported()
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]

            async with asyncio.timeout(9):  # at a quarter of a second a token, 4 of 100 are missing
                assert 96 == cached(await decode.reported(kv_transfer_params=params))

    @pytest.mark.parametrize(
        "params", [{"do_remote_prefill": True}, {"do_remote_prefill": True, "remote_port": "no number"}, 7]
    )
    async def test_params_that_are_not_are_refused(self, params: object) -> None:
        async with workers("decode") as [decode]:
            assert 400 == (await decode.ask(kv_transfer_params=params)).status_code

    async def test_other_bodies_are_for_their_endpoints(self) -> None:
        async with workers("decode") as [decode], httpx.AsyncClient(timeout=60, verify=False) as client:
            for content in (b"", b"[]", b"{"):
                response = await client.post(
                    f"{decode.url}/v1/completions", content=content, headers={"content-type": "application/json"}
                )
                assert 400 == response.status_code

    async def test_who_leaves_while_it_is_fetched_leaves(self) -> None:
        half = {"transfer_us_per_token": 1e7}
        async with workers("prefill", "decode", half=half, speed=1) as [prefill, decode]:
            params = (await prefill.reported(max_tokens=1, kv_transfer_params=WANTED))["kv_transfer_params"]
            asking = asyncio.ensure_future(decode.ask(kv_transfer_params=params))
            while await decode.states() != ["running"]:
                await asyncio.sleep(0.001)
            asking.cancel()
            async with asyncio.timeout(60):
                while await decode.states() != ["aborted"]:
                    await asyncio.sleep(0.001)


class TestSglang:
    def room(self, port: int) -> dict[str, Any]:
        return {"bootstrap_host": "127.0.0.1", "bootstrap_port": port, "bootstrap_room": 2**62 + 5}

    @asynccontextmanager
    async def pair(self, **half: Any) -> AsyncIterator[tuple[Worker, Worker, dict[str, Any]]]:
        async with (
            workers("prefill", dialect="sglang", half=half) as [prefill],
            workers("decode", dialect="sglang", half=half) as [decode],
        ):
            yield prefill, decode, self.room(await bootstrap_port(prefill.url))

    @pytest.mark.parametrize("first", [0, 1])
    async def test_both_meet_anyone_who_comes_first(self, first: int) -> None:
        async with self.pair() as (prefill, decode, room):
            pair = [prefill, decode]
            early = asyncio.ensure_future(pair[first].reported(**room))
            while await pair[first].states() != ["running"]:
                await asyncio.sleep(0.001)
            late = await pair[1 - first].reported(**room)
            reported = [await early, late] if first == 0 else [late, await early]

        assert [1, 4] == [each["usage"]["completion_tokens"] for each in reported]
        assert [0, 96] == [cached(each) for each in reported]

    async def test_each_of_several_answers_has_a_room(self) -> None:
        async with self.pair() as (prefill, decode, room):
            both = await asyncio.gather(prefill.reported(n=2, **room), decode.reported(n=2, **room))

        assert [2, 2] == [len(reported["choices"]) for reported in both]

    async def test_without_a_room_it_is_refused(self) -> None:
        async with self.pair() as (prefill, decode, room):
            for worker in (prefill, decode):
                reported = await worker.ask()
                assert (400, "Disaggregated request received without bootstrap room id.") == (
                    reported.status_code,
                    reported.json()["message"],
                )
            assert 400 == (await decode.ask(bootstrap_room=room["bootstrap_room"])).status_code

    async def test_a_decode_worker_computes_no_prompt(self) -> None:
        async with self.pair() as (prefill, decode, room):
            await prefill.life.aclose()
            reported = await decode.ask(**room)

        assert 500 == reported.status_code
        assert "Decode transfer failed for bootstrap_room" in reported.json()["message"]

    async def test_blocks_that_no_one_fetches_are_not_held_for_ever(self) -> None:
        async with self.pair(lease_s=0.05) as (prefill, _, room):
            assert 1 == (await prefill.reported(**room))["usage"]["completion_tokens"]


class TestAdoption:
    def test_full_blocks_come_behind_those_that_are_there(self) -> None:
        pool = BlockPool(8, 4)
        adopt(pool, EngineRequest("a", 9, 1, ["x", "y"]), 9)
        adopt(pool, EngineRequest("b", 13, 1, ["x", "y", "z"]), 13)

        assert 3 == len(pool.match(["x", "y", "z"], 3))
        assert 8 == pool.free

    def test_no_more_than_there_is_of_the_prompt(self) -> None:
        pool = BlockPool(8, 4)
        adopt(pool, EngineRequest("a", 9, 1, ["x", "y", "answer"]), 100)

        assert 2 == len(pool.match(["x", "y", "answer"], 3))

    def test_none_where_there_is_no_room(self) -> None:
        pool = BlockPool(2, 4)
        assert pool.take((), 1) is not None
        adopt(pool, EngineRequest("a", 9, 1, ["x", "y"]), 9)

        assert [] == pool.match(["x", "y"], 2)


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ({"side_channel_port": -1}, "side_channel_port must be 0 to 65535, got -1"),
        ({"transfer_us_per_token": -0.5}, "transfer_us_per_token must not be negative, got -0.5"),
        ({"lease_s": 0}, "lease_s must be above 0, got 0"),
    ],
)
def test_an_option_that_cannot_be_is_named(reported: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        HalfOptions(**reported)
