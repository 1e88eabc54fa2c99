"""Bedrock, for the `Backend` contract suite."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import httpx

from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.backend import BedrockBackend
from gateway.backends.bedrock.endpoint import BedrockTimeouts
from tests.contracts.harness import Answers, AnswersStatus, Behavior, BreaksAfter, HangsAfter, Refuses, Stage, Streams
from tests.fakes import bedrock
from tests.fakes.bedrock import Cut, FakeBedrock, KeyHolder

KINDS = {
    400: "ValidationException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


@dataclass(frozen=True, slots=True)
class BedrockStage:
    backend: BedrockBackend
    fake: FakeBedrock

    @property
    def calls_seen(self) -> int:
        return len(self.fake.requests)

    async def caller_left(self, *, within_s: float) -> bool:
        return await self.fake.caller_left(within_s=within_s)


class BedrockHarness:
    def __init__(self, wire: Literal["converse", "openai"] = "converse") -> None:
        self._wire = wire
        self.name = f"bedrock, {wire}"

    @asynccontextmanager
    async def stage(
        self, behavior: Behavior, *, first_byte_s: float | None = None, idle_s: float | None = None
    ) -> AsyncIterator[Stage]:
        waits = first_byte_s or 60.0
        timeouts = BedrockTimeouts(first_event_s=waits, whole_answer_s=waits, idle_s=idle_s or 60.0)
        async with (
            FakeBedrock(self._scenario(behavior)).serving() as fake,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            backend = BedrockBackend(
                model_id="qwen.qwen3-32b-v1:0",
                region=bedrock.REGION,
                client=client,
                signer=SigV4Signer(region=bedrock.REGION, credentials=CredentialChain(new_session=KeyHolder)),
                endpoint_url=_no_one() if behavior == Refuses() else fake.base_url,
                timeouts=timeouts,
                wire=self._wire,
            )
            yield BedrockStage(backend, fake)
            assert [] == fake.rejections

    def _scenario(self, behavior: Behavior) -> bedrock.Scenario:
        match behavior:
            case Answers(text):
                return bedrock.Says((text,))
            case Streams(words):
                return bedrock.Says(words)
            case AnswersStatus(status):
                return bedrock.Refuses(status, KINDS[status])
            case HangsAfter(words):
                return self._cut_after(words, Cut.STALL)
            case BreaksAfter(words):
                return self._cut_after(words, Cut.ABORT)
            case Refuses():
                return bedrock.Says()

    def _cut_after(self, words: tuple[str, ...], cut: Cut) -> bedrock.Scenario:
        if not words:
            return bedrock.Silent(cut)
        if self._wire == "converse":
            return bedrock.Streams((bedrock.MESSAGE_START, *map(bedrock.text_delta, words), cut))
        announced_and_said = tuple(bedrock.Says(words).to_chunks("m"))[: 1 + len(words)]
        return bedrock.Streams((*announced_and_said, cut), content_type="text/event-stream")


def _no_one() -> str:
    """An address of the loopback at which no one listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
