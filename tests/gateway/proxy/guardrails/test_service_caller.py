import asyncio

import pytest

from gateway.protocol.errors import ConnectFailed, GuardrailUnavailable
from gateway.proxy.guardrails.service_caller import ServiceCaller, ServiceLimits
from tests.gateway.examples import Clock


def a_service(clock: Clock | None = None, **limits: float) -> ServiceCaller:
    return ServiceCaller("judge", ServiceLimits(**{"timeout_s": 5.0, **limits}), clock=clock or Clock())  # type: ignore[arg-type]


async def fine() -> str:
    return "fine"


async def hangs() -> str:
    await asyncio.Event().wait()
    raise AssertionError


async def fails() -> str:
    raise ConnectFailed("no")


async def test_an_answer_is_passed_on() -> None:
    assert "fine" == await a_service().ask(fine)


async def test_who_takes_too_long_is_away() -> None:
    with pytest.raises(GuardrailUnavailable, match="'judge' did not answer in time"):
        await a_service(timeout_s=0.01).ask(hangs)


async def test_waiting_too_long_for_a_turn_fails() -> None:
    service = a_service(timeout_s=0.01, most_at_once=1)
    await service._places.acquire()  # somebody's question, that lasts

    with pytest.raises(GuardrailUnavailable, match="in time"):
        await service.ask(fine)
    service._places.release()
    service._limits = ServiceLimits()
    assert "fine" == await service.ask(fine)


async def test_after_five_failures_it_is_left_alone_for_a_while() -> None:
    clock, asked = Clock(), 0
    service = a_service(clock)

    async def counted() -> str:
        nonlocal asked
        asked += 1
        return await fails()

    for _ in range(7):
        with pytest.raises(GuardrailUnavailable):
            await service.ask(counted)
    assert 5 == asked
    clock.now += 60

    assert "fine" == await service.ask(fine)
    assert "fine" == await service.ask(fine)


async def test_an_error_has_only_the_name_of_the_fault() -> None:
    async def says() -> str:
        raise ValueError("4111 1111 1111 1111")

    with pytest.raises(GuardrailUnavailable) as away:
        await a_service().ask(says)

    assert "The guardrail 'judge' failed (ValueError)" == str(away.value)
