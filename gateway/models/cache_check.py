"""Check that the KV events of a worker's engine match the gateway's own tokens. Each worker is checked once.

Wrong events look like a cold cache. So the gateway sends the engine a unique prompt, and compares its KV events with
the gateway's hashes of the same prompt. Model, tokens, block size, salt and topic each fail in a different way.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import msgspec

from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from gateway.models.exact_prompts import ExactPrompt, ExactPrompts

Disagreement = Literal["model", "tokens", "topic", "block_size", "prefix", "salt", "cached_tokens"]
Verdict = Disagreement | Literal["agrees", "unknown"]
"""Result of a KV event check.

* ``agrees``: the events match the prompt, and the engine reports as many cached tokens as predicted
* ``unknown``: the engine did not answer, or the exact tokens are not available
* ``model``: the engine does not know the model name in requests
* ``tokens``: the engine counts a different number of tokens in the same text
* ``topic``: the engine published no events for the prompt; its topic or port differs, or its events are off
* ``block_size``: the block size in the events differs from the engine's metrics
* ``prefix``: the engine published other blocks than those of the prompt; its tokenizer or cache scope differs
* ``salt``: the events match the prompt without a cache salt, but not with one
* ``cached_tokens``: the events match, but a second request reports an unexpected number of cached tokens
"""

PATH = "/v1/completions"
WORDS = ("warm", "gate", "asks", "itself", "whether", "it", "knows", "what", "is", "cached")
SALT = "warmgate"
SAME = "same"
"""First words of the prompt that all workers receive."""
HEARD_S = 5.0
"""Seconds to wait for the KV events of a prompt, which usually arrive much faster."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Examinee:
    """Worker whose KV events are checked."""

    worker: WorkerId
    url: str
    headers: Mapping[str, str]
    upstream_name: str
    prompts: ExactPrompts
    block_size: int | None
    """Tokens per block according to the engine's metrics, or None if the metrics do not include it."""
    blocks_heard: Callable[[], int]
    """Function that returns the number of blocks that the engine has published so far."""


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    prompt_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    usage: _Usage


class _Refused(Exception):
    """The engine does not know the model name of a request."""


class CacheCheck:
    """Check of KV events that sends three tiny completions to a worker. *nonce* makes each prompt unique."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        confirmed: Confirmed,
        *,
        clock: Callable[[], float],
        nonce: Callable[[], str],
        heard_s: float = HEARD_S,
        timeout_s: float = 30.0,
    ) -> None:
        self._client = client
        self._confirmed = confirmed
        self._clock = clock
        self._nonce = nonce
        self._heard_s = heard_s
        self._timeout_s = timeout_s

    async def verdict(self, examinee: Examinee) -> Verdict:
        """Run the check and return its result. It takes a few times *heard_s*, plus the time of the engine."""
        try:
            plain = await self._try(examinee, None)
            salted = await self._try(examinee, SALT) if plain == "agrees" else plain
        except _Refused:
            return "model"
        except (httpx.HTTPError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError):
            return "unknown"
        return "salt" if (plain, salted) == ("agrees", "prefix") else salted

    async def block_hash(self, examinee: Examinee) -> int | None:
        """Return the engine's hash of the first block of a prompt that is the same for all workers, or None if unknown.

        Engines hash the same block differently if their seeds differ.
        """
        try:
            body = self._body(examinee, None, beginning=SAME)
            prompt = await self._prompt(examinee, body, None)
            if prompt is None:
                return None
            await self._ask(examinee, body)
            if not await self._is_found(examinee, prompt):
                return None
        except (_Refused, httpx.HTTPError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        hashes = (self._confirmed.engine_hash(examinee.worker, prefix) for prefix in prompt.prefixes)
        return next((engine_hash for engine_hash in hashes if engine_hash is not None), None)

    async def _try(self, examinee: Examinee, salt: str | None) -> Verdict:
        body = self._body(examinee, salt)
        prompt = await self._prompt(examinee, body, salt)
        if prompt is None:
            return "unknown"
        heard = examinee.blocks_heard()
        usage = await self._ask(examinee, body)
        if usage.prompt_tokens != prompt.tokens:
            return "tokens"
        if not await self._is_found(examinee, prompt):
            return self._why_not_found(examinee, heard)
        return await self._repeated(examinee, body, prompt)

    async def _repeated(self, examinee: Examinee, body: bytes, prompt: ExactPrompt) -> Verdict:
        """Send the same prompt again, and return whether the engine reports the predicted number of cached tokens."""
        usage = await self._ask(examinee, body)
        cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details is not None else None
        if cached is None:
            return "agrees"  # it was not started to say so
        sizes = [prefix.block_tokens for prefix in prompt.prefixes]
        return "agrees" if cached in [(prompt.tokens - 1) // size * size for size in sizes] else "cached_tokens"

    async def _prompt(self, examinee: Examinee, body: bytes, salt: str | None) -> ExactPrompt | None:
        for _ in range(20):  # what is slow at first goes on meanwhile
            prompt = await examinee.prompts.tokenize(PATH, body, salt)
            if prompt is not None:
                return prompt
            await asyncio.sleep(POLL_S)
        return None

    async def _is_found(self, examinee: Examinee, prompt: ExactPrompt) -> bool:
        until = self._clock() + self._heard_s
        while True:
            for prefix in prompt.prefixes:
                hit = self._confirmed.match(prefix, self._clock()).get(examinee.worker)
                if hit is not None and hit.blocks == prefix.blocks:
                    return True
            if self._clock() >= until:
                return False
            await asyncio.sleep(POLL_S)

    def _why_not_found(self, examinee: Examinee, heard: int) -> Verdict:
        if examinee.blocks_heard() == heard:
            return "topic"
        published = self._confirmed.block_size(examinee.worker)
        if None not in (published, examinee.block_size) and published != examinee.block_size:
            return "block_size"
        return "prefix"

    async def _ask(self, examinee: Examinee, body: bytes) -> _Usage:
        headers = {"content-type": "application/json", **examinee.headers}
        async with asyncio.timeout(self._timeout_s):
            answer = await self._client.post(examinee.url + PATH, content=body, headers=headers, timeout=None)
        if answer.status_code == 404:
            raise _Refused
        answer.raise_for_status()
        return msgspec.json.decode(answer.content, type=_Answer).usage

    def _body(self, examinee: Examinee, salt: str | None, *, beginning: str | None = None) -> bytes:
        """Return a request body whose prompt has several blocks. By default, the first words differ for each worker.
        With *beginning*, requests are equal for all workers.
        """
        size = max([examinee.block_size or 0, self._confirmed.block_size(examinee.worker) or 0, 16])
        text = f"{beginning or self._nonce()} " + " ".join(WORDS[i % len(WORDS)] for i in range(4 * size))
        body: dict[str, Any] = {"model": examinee.upstream_name, "prompt": text, "max_tokens": 1, "temperature": 0}
        return msgspec.json.encode(body if salt is None else {**body, "cache_salt": salt})
