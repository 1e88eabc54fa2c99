import asyncio

import pytest

from gateway.errors import ConnectFailed, GuardrailAway
from gateway.guardrails.patience import Patience, Patient
from tests.gateway.examples import Clock


def a_patient(clock: Clock | None = None, **patience: float) -> Patient:
    return Patient("judge", Patience(**{"timeout_s": 5.0, **patience}), clock=clock or Clock())  # type: ignore[arg-type]


async def fine() -> str:
    return "fine"


async def hangs() -> str:
    await asyncio.Event().wait()
    raise AssertionError


async def fails() -> str:
    raise ConnectFailed("no")


async def test_an_answer_is_passed_on() -> None:
    assert "fine" == await a_patient().ask(fine)


async def test_who_takes_too_long_is_away() -> None:
    with pytest.raises(GuardrailAway, match="'judge' did not answer in time"):
        await a_patient(timeout_s=0.01).ask(hangs)


async def test_who_waits_too_long_for_a_turn_is_told_so() -> None:
    patient = a_patient(timeout_s=0.01, most_at_once=1)
    await patient._places.acquire()  # somebody's question, that lasts

    with pytest.raises(GuardrailAway, match="in time"):
        await patient.ask(fine)
    patient._places.release()
    patient._patience = Patience()
    assert "fine" == await patient.ask(fine)


async def test_after_five_failures_it_is_left_alone_for_a_while() -> None:
    clock, asked = Clock(), 0
    patient = a_patient(clock)

    async def counted() -> str:
        nonlocal asked
        asked += 1
        return await fails()

    for _ in range(7):
        with pytest.raises(GuardrailAway):
            await patient.ask(counted)
    assert 5 == asked
    clock.now += 60

    assert "fine" == await patient.ask(fine)
    assert "fine" == await patient.ask(fine)


async def test_a_fault_is_told_by_its_name_only() -> None:
    async def tells() -> str:
        raise ValueError("4111 1111 1111 1111")

    with pytest.raises(GuardrailAway) as away:
        await a_patient().ask(tells)

    assert "The guardrail 'judge' failed (ValueError)" == str(away.value)
