"""Load test of an OpenAI-compatible endpoint: ``locust -f benchmarks/locustfile.py --host https://gateway``.

The file needs only locust (``pip install locust``) and can be copied to another machine. Every user runs one
conversation after the other. Locust's statistics get three entries for a stream:

    POST   the whole answer, from the request to its last byte
    TTFT   from the request to the first text, reasoning or tool call that an event of the stream carries
    TPOT   time per output token after that: until the last one, over the tokens after the first

The row "Aggregated" mixes all three entries and has little meaning. A failure is named by its status and OpenAI's code,
such as ``429 rate_limit_exceeded``. Messages, prompts and keys never appear in the statistics.
"""

import argparse
import functools
import itertools
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from geventhttpclient import HTTPClient
from geventhttpclient._parser import HTTPParseError
from locust import User, events, task
from locust.env import Environment

PATH = "/v1/chat/completions"
KEY_VARIABLE = "OPENAI_API_KEY"
CHARACTERS_PER_TOKEN = 4
SECRET: dict[str, Any] = {"is_secret": True}
"""Attributes of an option that locust's web page does not show."""
MARKS = (b'"usage":{', b'"usage": {', b'"error"')
"""Markers of events that must be parsed. No text contains them, because quotes inside a text are escaped."""
BROKEN = (OSError, HTTPParseError)
"""Exceptions for failed connections."""
WORDS = tuple(
    word
    for line in (
        "the and for are but not all can had her one our out has him his man did its let put use end far old led ran",
        "sun sea air arm art bad bag bar bed big bit bus car cat cup cut dog ear eat egg fat fun gas gun hat hit hot",
        "ice ill lot map men met mud nor nut off oil pan pen per pig pin pot red rod run sad sat set sit ten tin top",
    )
    for word in line.split()
)
"""Words that nearly every tokenizer encodes as one token of four characters, together with the following space."""

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages before one request, and the length of the answer."""

    messages: Sequence[Message]
    output_tokens: int
    answer: Message | None = None
    """Answer that the next turn quotes, or None to quote the received answer."""
    is_quoted: bool = False
    """Whether the answer must be stored for the next turn."""


Talk = Callable[[random.Random], Iterator[Turn]]
"""Function that creates the turns of one conversation."""
Passage = Callable[[int, random.Random], str]
"""Function that creates a text of about the given number of tokens."""


# ---- what is said


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of conversations that are invented or cut from a text."""

    prompt_tokens: int
    """Tokens of a conversation's first prompt. Each later turn adds as many tokens as the unshared part has."""
    shared_tokens: int
    """Tokens at the start that all conversations with the same context share."""
    contexts: int
    output_tokens: int
    turns: int

    def talk(self, passage: Passage) -> Talk:
        """Return a function that creates conversations about passages. Contexts are the same on every machine."""

        def turns(rng: random.Random) -> Iterator[Turn]:
            context = random.Random(rng.randrange(self.contexts))
            shared = passage(self.shared_tokens, context) if self.shared_tokens else ""
            opening = [{"role": "system", "content": shared}] if shared else []
            for left in reversed(range(self.turns)):
                question = passage(self.prompt_tokens - self.shared_tokens, rng)
                said = [*opening, {"role": "user", "content": question}]
                yield Turn(said, self.output_tokens, is_quoted=left > 0)
                opening = []

        return turns


def words(tokens: int, rng: random.Random) -> str:
    """Return random words without meaning."""
    return " ".join(rng.choices(WORDS, k=tokens))


def cut_from(text: str) -> Passage:
    """Return a function that cuts passages from a text. Raises ``ValueError`` if there is no text."""
    if not text.strip():
        raise ValueError("--text is empty")

    def passage(tokens: int, rng: random.Random) -> str:
        characters = tokens * CHARACTERS_PER_TOKEN
        start = rng.randrange(max(1, len(text) - characters))
        return text[start : start + characters]

    return passage


def recorded(path: Path, output_tokens: int | None) -> Talk:
    """Return conversations from a file with one JSON object per line, all equally likely.

    A line has ``messages`` (a request for each message of the assistant), ``prompt`` (one request), or, as traces of
    block hashes do, ``input_length``, ``output_length`` and ``hash_ids``: the text repeats where the hashes repeat.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file has no such line, or a line is not JSON.
    """
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    known = [line for line in lines if {"messages", "prompt", "hash_ids"} & set(line)]
    if not known:
        raise ValueError(f"{path.name} has no line with messages, prompt or hash_ids")

    def turns(rng: random.Random) -> Iterator[Turn]:
        line = rng.choice(known)
        if "messages" in line:
            yield from _recorded_turns(line["messages"], output_tokens)
        elif "prompt" in line:
            yield Turn([{"role": "user", "content": line["prompt"]}], output_tokens or 256)
        else:
            said = {"role": "user", "content": _text_of_blocks(line["hash_ids"], line["input_length"])}
            yield Turn([said], output_tokens or max(1, line["output_length"]))

    return turns


def _recorded_turns(messages: Sequence[Message], output_tokens: int | None) -> Iterator[Turn]:
    said: list[Message] = []
    for message in messages:
        if message["role"] != "assistant":
            said.append(message)
        elif said:
            length = len(json.dumps(message.get("content") or message.get("tool_calls"))) // CHARACTERS_PER_TOKEN
            yield Turn(said, output_tokens or max(8, length), answer=message)
            said = []
    if said:
        yield Turn(said, output_tokens or 256)


def _text_of_blocks(ids: Sequence[int], tokens: int) -> str:
    size = -(-tokens // max(1, len(ids)))
    return " ".join(words(size, random.Random(block)) for block in ids)[: tokens * CHARACTERS_PER_TOKEN]


# ---- what is answered


@dataclass(slots=True)
class Reply:
    """Result of one request. Times are in seconds of `time.perf_counter`."""

    status: int = 0
    failure: str | None = None
    """Failure as status and code, or None if the answer is complete."""
    begun_at: float = 0.0
    first_at: float | None = None
    last_at: float = 0.0
    output_tokens: int = 0
    """Number of output tokens from the usage or, without usage, of events with text."""
    text: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def ttft_ms(self) -> float | None:
        return None if self.first_at is None else 1000 * (self.first_at - self.begun_at)

    @property
    def tpot_ms(self) -> float | None:
        """Milliseconds per output token, or None if the answer has a single token."""
        if self.first_at is None or self.output_tokens < 2:
            return None
        return 1000 * (self.last_at - self.first_at) / (self.output_tokens - 1)


class Lines(Protocol):
    """Reader of a response that yields lines as they arrive."""

    def readline(self, sep: bytes = ...) -> bytes: ...


def read_stream(response: Lines, reply: Reply, *, keeps_text: bool, clock: Callable[[], float]) -> None:
    """Read an event stream to its end, into *reply*. For most events, only the time is recorded."""
    is_complete = False
    chunks = 0
    while line := response.readline(b"\n"):
        reply.size += len(line)
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            is_complete = True
        elif (
            reply.first_at is None or keeps_text or b'"usage":{' in data or b'"usage": {' in data or b'"error"' in data
        ):
            chunks += _take(json.loads(data), reply, clock(), keeps_text=keeps_text)
        else:
            chunks += 1
            reply.last_at = clock()
    reply.output_tokens = reply.output_tokens or chunks
    if reply.failure is None and not is_complete:
        reply.failure = "stream ended early"


def _take(event: dict[str, Any], reply: Reply, now: float, *, keeps_text: bool) -> int:
    """Process one event and return the number of events with text: one or none."""
    if "error" in event:
        reply.failure = f"in the stream: {code_of(event)}"
        return 0
    usage = event.get("usage")
    if usage:
        reply.output_tokens = usage.get("completion_tokens") or 0
    said = [choice.get("delta") or {} for choice in event.get("choices") or []]
    texts = [delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") for delta in said]
    if not any(texts) and not any(delta.get("tool_calls") for delta in said):
        return 0
    reply.first_at = reply.first_at or now
    reply.last_at = now
    if keeps_text:
        reply.text += [text for text in texts if text]
    return 1


def code_of(body: object) -> str:
    """Return the code or else the type of an error in OpenAI's format. The message is never used, because it can quote
    the request.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "error"
    return str(error.get("code") or error.get("type") or "error")


def _read_whole(body: bytes, reply: Reply) -> None:
    answer = json.loads(body)
    message = answer["choices"][0]["message"]
    reply.output_tokens = (answer.get("usage") or {}).get("completion_tokens") or 0
    reply.text.append(message.get("content") or "")


def _refusal(body: bytes) -> str:
    try:
        return code_of(json.loads(body))
    except ValueError:
        return "no JSON"


# ---- who asks


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of the load test, derived from the options."""

    talk: Talk
    model: str
    is_streamed: bool
    think_s: float
    timeout_s: float
    is_insecure: bool
    ignores_eos: bool
    seed: int | None
    keys: Sequence[tuple[str, str]]
    """Pairs of a team name, which can be empty, and a key. Users get the keys in turn."""

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Plan":
        """Return the plan for the options. Raises ``OSError`` or ``ValueError`` for invalid files or contradictory
        numbers.
        """
        return cls(
            talk=_talk_of(options),
            model=options.model,
            is_streamed=options.stream,
            think_s=options.think_s,
            timeout_s=options.timeout_s,
            is_insecure=options.insecure,
            ignores_eos=options.ignore_eos,
            seed=options.prompt_seed,
            keys=_keys_of(options),
        )


def _talk_of(options: argparse.Namespace) -> Talk:
    if options.trace:
        return recorded(Path(options.trace), options.output_tokens)
    if not 0 <= options.shared_tokens < options.prompt_tokens:
        raise ValueError("--shared-tokens must be less than --prompt-tokens")
    if min(options.contexts, options.turns) < 1:
        raise ValueError("--contexts and --turns must be at least 1")
    passage = cut_from(Path(options.text).read_text(encoding="utf-8")) if options.text else words
    sizes = Sizes(
        prompt_tokens=options.prompt_tokens,
        shared_tokens=options.shared_tokens,
        contexts=options.contexts,
        output_tokens=options.output_tokens or 256,
        turns=options.turns,
    )
    return sizes.talk(passage)


def _keys_of(options: argparse.Namespace) -> list[tuple[str, str]]:
    if not options.keys_file:
        return [("", options.key or os.environ.get(KEY_VARIABLE, ""))]
    lines = Path(options.keys_file).read_text(encoding="utf-8").splitlines()
    entries = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    if not entries or any(len(each) > 2 for each in entries):
        raise ValueError("--keys-file has a key in each line, or the name of a team and its key")
    return [(each[0] if len(each) == 2 else "", each[-1]) for each in entries]


class Caller(User):
    """Locust user that sends a request, waits for the answer, pauses, and sends the next request."""

    _numbers = itertools.count()

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        plan = _plan(environment)
        number = next(self._numbers)
        self._plan = plan
        self._rng = random.Random(None if plan.seed is None else f"{plan.seed} {number}")
        team, self._key = plan.keys[number % len(plan.keys)]
        base = str(self.host or "").rstrip("/").removesuffix("/v1")
        self._path = urlsplit(base).path + PATH
        self._name = f"{PATH} {team}".strip()
        self._talks = itertools.count()
        self._session = f"locust-{os.getpid()}-{number}"
        self._client = HTTPClient.from_url(
            base,
            network_timeout=plan.timeout_s,
            connection_timeout=min(30.0, plan.timeout_s),
            insecure=plan.is_insecure,
        )

    def wait_time(self) -> float:
        """Return the seconds before the next conversation."""
        return self._rng.expovariate(1 / self._plan.think_s) if self._plan.think_s else 0.0

    def on_stop(self) -> None:
        self._client.close()

    @task
    def talk(self) -> None:
        """Run one conversation, and stop at its first failure."""
        messages: list[Message] = []
        session = f"{self._session}-{next(self._talks)}"
        for number, turn in enumerate(self._plan.talk(self._rng)):
            if number:
                time.sleep(self.wait_time())
            messages += turn.messages
            reply = self._ask(messages, turn, session)
            if reply.failure is not None:
                return
            messages.append(turn.answer or {"role": "assistant", "content": "".join(reply.text)})

    def _ask(self, messages: Sequence[Message], turn: Turn, session: str) -> Reply:
        body: dict[str, Any] = {"model": self._plan.model, "messages": messages, "max_tokens": turn.output_tokens}
        if self._plan.is_streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self._plan.ignores_eos:
            body["ignore_eos"] = True
        headers = {"content-type": "application/json", "x-session-id": session}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        payload = json.dumps(body)
        started_at, reply = time.time(), Reply(begun_at=time.perf_counter())
        try:
            self._read(reply, payload, headers, keeps_text=turn.is_quoted)
        except BROKEN as error:
            reply.failure = type(error).__name__
        except (ValueError, KeyError, IndexError, TypeError):
            reply.failure = f"{reply.status} not in OpenAI's form"
        self._tell(reply, started_at, 1000 * (time.perf_counter() - reply.begun_at))
        return reply

    def _read(self, reply: Reply, payload: str, headers: dict[str, str], *, keeps_text: bool) -> None:
        response = self._client.post(self._path, payload, headers)
        try:
            reply.status = response.status_code
            if reply.status == 200 and self._plan.is_streamed:
                read_stream(response, reply, keeps_text=keeps_text, clock=time.perf_counter)
                return
            content = bytes(response.read())
            reply.size = len(content)
            if reply.status != 200:
                reply.failure = f"{reply.status} {_refusal(content)}"
            else:
                _read_whole(content, reply)
        finally:
            response.release()

    def _tell(self, reply: Reply, started_at: float, took_ms: float) -> None:
        fire = functools.partial(
            self.environment.events.request.fire, name=self._name, context={}, start_time=started_at, url=self._path
        )
        failure = None if reply.failure is None else AskingFailed(reply.failure)
        fire(request_type="POST", response_time=took_ms, response_length=reply.size, exception=failure)
        for kind, value_ms in (("TTFT", reply.ttft_ms), ("TPOT", reply.tpot_ms)):
            if value_ms is not None and reply.failure is None:
                fire(request_type=kind, response_time=value_ms, response_length=0, exception=None)


class AskingFailed(Exception):
    """Error reported to locust, which groups failures with the same text."""


@functools.lru_cache(maxsize=1)
def _plan(environment: Environment) -> Plan:
    """Return the plan. Files are read only once."""
    assert environment.parsed_options is not None
    return Plan.of(environment.parsed_options)


def _check(environment: Environment, **_: Any) -> None:
    """Check the options before users start, and exit with an error message if they are invalid."""
    try:
        _plan(environment)
    except (OSError, ValueError) as error:
        raise SystemExit(f"locustfile: {error}") from error


def _add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("OpenAI-compatible endpoint")
    group.add_argument("--model", default="tiny", help="as the endpoint names it (default %(default)s)")
    # Locust's parser alone knows secrets, its groups do not.
    parser.add_argument("--key", default="", help=f"of the endpoint; default: what {KEY_VARIABLE} says", **SECRET)
    group.add_argument("--keys-file", default="", help="a key in each line, or a team and its key; users take turns")
    group.add_argument("--trace", default="", help="JSONL of conversations (messages), prompts, or block hashes")
    group.add_argument("--text", default="", help="a text file that prompts are cut from")
    group.add_argument("--prompt-tokens", type=int, default=1000, help="of made-up prompts (default %(default)s)")
    group.add_argument("--shared-tokens", type=int, default=0, help="of them, shared by all with the same context")
    group.add_argument("--contexts", type=int, default=1, help="different shared beginnings (default %(default)s)")
    group.add_argument("--output-tokens", type=int, help="max_tokens (default 256, or what the trace says)")
    group.add_argument("--ignore-eos", action="store_true", help="answers of just that length; vLLM and SGLang know it")
    group.add_argument("--turns", type=int, default=1, help="of a made-up conversation (default %(default)s)")
    group.add_argument("--think-s", type=float, default=0.0, help="mean time between answer and question (default 0)")
    group.add_argument("--stream", action="store_true", default=True, help="ask for streams (default)")
    group.add_argument("--no-stream", action="store_false", dest="stream", help="ask for whole answers")
    group.add_argument("--timeout-s", type=float, default=600.0, help="without a byte (default %(default)s)")
    group.add_argument("--insecure", action="store_true", help="take any TLS certificate")
    group.add_argument("--prompt-seed", type=int, help="the same prompts in every run of one process")


events.init.add_listener(_check)  # type: ignore[no-untyped-call]
events.init_command_line_parser.add_listener(_add_options)  # type: ignore[no-untyped-call]
