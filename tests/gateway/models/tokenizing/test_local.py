"""Exact tokens made here: which, where, and how long anybody waits for them."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from tokenizers import processors

from gateway.models.tokenizing.exactness import Exact, NotExact, Unknowable
from gateway.models.tokenizing.local import INLINE_BYTES, INLINE_CHARACTERS, LocalTokenizer
from gateway.models.tokenizing.token_source import RawPrompt
from tests.gateway.models.tokenizing.examples import HELLO, IM_END, IM_START, ids, segments, template, tiny_tokenizer
from tests.gateway.models.tokenizing.templates import CHATML, VISION

USER = {"role": "user", "content": "hello"}
USER_TOKENS = ids(IM_START, "user\n", HELLO, IM_END, "\n")
ASSISTANT = ids(IM_START, "assistant\n")


@dataclass
class Gate(Executor):
    """Runs what it is given when the gate is opened."""

    gate: threading.Event = field(default_factory=threading.Event)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    given: int = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **words: Any) -> "Future[Any]":
        self.given += 1

        def later() -> Any:
            assert self.gate.wait(10)
            return work(*arguments, **words)

        return self.pool.submit(later)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.gate.set()
    gate.pool.shutdown()


def local(executor: Executor, *, source: str | None = CHATML, budget_s: float = 10.0, **more: Any) -> LocalTokenizer:
    made = None if source is None else template(source)
    return LocalTokenizer(segments(more.pop("tokenizer", None)), made, executor=executor, budget_s=budget_s, **more)


def chat(*messages: dict[str, Any], **fields: Any) -> RawPrompt:
    body = {"model": "m", "messages": messages or [USER], **fields}
    return RawPrompt("/v1/chat/completions", json.dumps(body).encode(), "m")


def completion(prompt: Any, **fields: Any) -> RawPrompt:
    return RawPrompt("/v1/completions", json.dumps({"model": "m", "prompt": prompt, **fields}).encode(), "m")


async def test_a_chat_is_rendered_and_tokenised(gate: Gate) -> None:
    """All of it is certain; and what is short needs no thread."""
    assert Exact(USER_TOKENS + ASSISTANT, 20) == await local(gate).ids(chat())
    assert 0 == gate.given


async def test_the_same_chat_in_other_words_has_the_same_tokens(gate: Gate) -> None:
    """Over each of the three endpoints."""
    bodies = {
        "/v1/messages": b'{"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}],"max_tokens":1}',
        "/v1/responses": b'{"input":"hello"}',
    }

    for path, body in bodies.items():
        assert Exact(USER_TOKENS + ASSISTANT, 20) == await local(gate).ids(RawPrompt(path, body, "m"))


async def test_a_text_has_the_tokenizers_own_begin(gate: Gate) -> None:
    """Unless the caller says otherwise; a chat has it only if the caller says so."""
    made = local(gate, tokenizer=tiny_tokenizer(bos="<|endoftext|>"))

    assert Exact(ids(260, HELLO), 2) == await made.ids(completion("hello"))
    assert Exact(ids(HELLO), 1) == await made.ids(completion("hello", add_special_tokens=False))
    assert Exact(USER_TOKENS + ASSISTANT, 20) == await made.ids(chat())
    assert Exact(ids(260) + USER_TOKENS + ASSISTANT, 21) == await made.ids(chat(add_special_tokens=True))


async def test_of_several_texts_the_first_is_certain(gate: Gate) -> None:
    """The others only count as work."""
    assert Exact(ids(HELLO, "ab"), 1) == await local(gate).ids(completion(["hello", "ab"]))


async def test_ids_are_what_they_are(gate: Gate) -> None:
    """They need no tokenizer."""
    assert Exact(ids(7, 8), 2) == await local(gate).ids(completion([7, 8]))


async def test_a_prompt_with_an_image_is_exact_up_to_it(gate: Gate) -> None:
    """Rather, up to the last mark before it; the ids go on, for their number."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    prompt = chat(USER, {"role": "user", "content": [image]})

    outcome = await local(gate, source=VISION).ids(prompt)

    assert isinstance(outcome, Exact)
    assert USER_TOKENS == outcome.exact_ids
    assert outcome.tokens > outcome.exact_tokens


async def test_without_marks_nothing_before_an_image_is_certain(gate: Gate) -> None:
    """Tokens could span the place where it begins."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    made = local(gate, source=VISION, tokenizer=tiny_tokenizer([]))

    outcome = await made.ids(chat({"role": "user", "content": [image]}))

    assert isinstance(outcome, Exact)
    assert b"" == outcome.exact_ids


@pytest.mark.parametrize(
    ("reason", "prompt"),
    [
        ("endpoint", RawPrompt("/v1/embeddings", b"{}", "m")),
        ("malformed", RawPrompt("/v1/completions", b"{", "m")),
        ("malformed", completion([-1])),
        ("own_template", chat(chat_template="x")),
        ("template", chat()),
    ],
)
async def test_what_cannot_be_known_has_a_reason(gate: Gate, reason: Any, prompt: RawPrompt) -> None:
    """The same from the event loop and from a thread."""
    made = local(gate, source="{{ 1 / 0 }}")

    assert NotExact(reason) == await made.ids(prompt)
    with pytest.raises(Unknowable, match=reason):
        made.tokens(prompt)


async def test_a_model_without_a_template_has_no_chats(gate: Gate) -> None:
    """Its texts can be reported."""
    made = local(gate, source=None)

    assert NotExact("template") == await made.ids(chat())
    assert Exact(ids("a"), 1) == await made.ids(completion("a"))


async def test_a_tokenizer_that_does_more_around_texts_reports_none(gate: Gate) -> None:
    """The tokens around the text are not known."""
    tokenizer = tiny_tokenizer()
    marks = [("<|im_start|>", IM_START)]
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <|im_start|> $A", special_tokens=marks)
    made = local(gate, tokenizer=tokenizer)

    assert NotExact("unsupported") == await made.ids(completion("a"))


@pytest.mark.parametrize("content", ["a" * INLINE_BYTES, "a" * (INLINE_CHARACTERS + 1)])
async def test_what_is_long_goes_into_a_thread(gate: Gate, content: str) -> None:
    """A long body as a whole, much new text of a shorter one."""
    gate.gate.set()
    outcome = await local(gate).ids(chat({"role": "user", "content": content}))

    assert 1 == gate.given
    assert Exact(ids(IM_START, "user\n", content, IM_END, "\n") + ASSISTANT, len(content) + 19) == outcome


async def test_a_long_conversation_that_is_known_needs_no_thread(gate: Gate) -> None:
    """Only new text counts."""
    gate.gate.set()
    made = local(gate)
    long = {"role": "user", "content": "a" * (INLINE_CHARACTERS + 1)}
    await made.ids(chat(long))

    outcome = await made.ids(chat(long, USER))

    assert 1 == gate.given
    assert isinstance(outcome, Exact)
    assert outcome.ids.endswith(USER_TOKENS + ASSISTANT)


async def test_a_refusal_comes_from_a_thread_too(gate: Gate) -> None:
    """It is no error."""
    gate.gate.set()

    assert NotExact("malformed") == await local(gate).ids(RawPrompt("/v1/completions", b"{" * (INLINE_BYTES + 1), "m"))


async def test_no_one_waits_beyond_the_budget(gate: Gate) -> None:
    """What was begun goes on, and is found the next time."""
    made = local(gate, budget_s=0.01)
    prompt = chat({"role": "user", "content": "a" * (INLINE_CHARACTERS + 1)})

    assert NotExact("slow") == await made.ids(prompt)
    assert 1 == made.pending
    gate.gate.set()
    async with asyncio.timeout(60):
        while made.pending:
            await asyncio.sleep(0.005)

    assert isinstance(await made.ids(prompt), Exact)
    assert 1 == gate.given


async def test_work_does_not_pile_up(gate: Gate) -> None:
    """Beyond a number nothing is begun."""
    made = local(gate, budget_s=0.01, max_pending=2)
    prompts = [chat({"role": "user", "content": letter * (INLINE_CHARACTERS + 1)}) for letter in "abc"]

    outcomes = [await made.ids(prompt) for prompt in prompts]

    assert [NotExact("slow"), NotExact("slow"), NotExact("busy")] == outcomes
    assert 2 == gate.given


async def test_a_caller_that_goes_away_leaves_nothing_behind(gate: Gate) -> None:
    """The work ends by itself."""
    made = local(gate)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(made.ids(chat({"role": "user", "content": "a" * (INLINE_CHARACTERS + 1)})))
        while not made.pending:
            await asyncio.sleep(0)
        waiting.cancel()
    gate.gate.set()
    async with asyncio.timeout(60):
        while made.pending:
            await asyncio.sleep(0.005)

    assert waiting.cancelled()


async def test_a_pool_that_was_shut_down_is_busy(gate: Gate) -> None:
    """The gateway is about to end."""
    gate.pool.shutdown()

    assert NotExact("busy") == await local(gate).ids(completion("a" * (INLINE_CHARACTERS + 1)))


async def test_an_error_in_a_thread_is_logged_by_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    """Its text could report the prompt."""

    class Breaks(Executor):
        def submit(self, work: Callable[..., Any], /, *arguments: Any, **words: Any) -> "Future[Any]":
            future: Future[Any] = Future()
            future.set_exception(ValueError("the prompt"))
            return future

    assert NotExact("unsupported") == await local(Breaks()).ids(completion("a" * (INLINE_CHARACTERS + 1)))
    assert "ValueError" in caplog.text
    assert "the prompt" not in caplog.text


async def test_what_is_distrusted_is_refused(gate: Gate) -> None:
    """Until it is said otherwise."""
    made = local(gate)
    made.distrust(frozenset({"parts"}))
    parts = chat({"role": "user", "content": [{"type": "text", "text": "a"}]})

    assert NotExact("disagrees") == await made.ids(parts)
    assert isinstance(await made.ids(chat()), Exact)

    made.distrust(frozenset())

    assert isinstance(await made.ids(parts), Exact)
