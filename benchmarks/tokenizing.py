"""Cost of exact tokens for a prompt whose first 15,000 tokens are remembered, compared with tokenizing the whole
prompt.

The tokenizer is a byte-level BPE trained on the recorded conversations, with ChatML's marks. The conversation is made
of recorded ones, one after the other, with ten tools in front. Whole means with nothing remembered; the turn comes to
what remembers the conversation up to the answer before it. Both read the body, render the template and make the tokens,
in one thread.

Two templates: ChatML with tools, and one that looks at each message several times, as those of reasoning models do.

Exit status: 0 if the target is met, 1 if the target is missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks.report import ROOT, Bar, Circumstances, Report, Spread, Table, argument_parser, conclude
from cache_index.tokens import pack
from gateway.models.tokenizing.bodies import asked_of
from gateway.models.tokenizing.chat_template import ChatTemplate
from gateway.models.tokenizing.engine_flags import EngineFlags
from gateway.models.tokenizing.loading import use_no_threads_of_its_own
from gateway.models.tokenizing.local import LocalTokenizer
from gateway.models.tokenizing.segment_cache import SegmentCache
from gateway.models.tokenizing.segments import Segments
from gateway.models.tokenizing.token_source import RawPrompt

CONVERSATIONS = ROOT / "benchmarks" / "traces" / "tau_airline_conversations.jsonl"
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = 16_000
SEEN_TOKENS = 15_000
TOOLS = 10
SHARE_BAR = 1 / 8
CACHE_BYTES = 64 * 2**20
PATH = "/v1/chat/completions"
PACKAGES = ("tokenizers", "jinja2", "msgspec")

CHATML = """\
{%- if tools %}
{{- '<|im_start|>system\\n# Tools\\n' }}
{%- for tool in tools %}{{- tool | tojson ~ '\\n' }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

REASONING = """\
{%- set at = namespace(question=-1) %}
{%- for message in messages | reverse %}
    {%- if at.question < 0 and message.role == 'user' and not message.content.startswith('<tool_response>') %}
        {%- set at.question = loop.revindex0 %}
    {%- endif %}
{%- endfor %}
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n' ~ (tools | map('tojson') | join('\\n')) ~ '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set said, thought = message.content, message.reasoning_content or '' %}
    {%- if not thought and '</think>' in said %}
        {%- set thought, said = said.split('</think>')[0].split('<think>')[-1], said.split('</think>')[-1] %}
    {%- endif %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {{- '<think>' ~ thought ~ '</think>' if loop.index0 > at.question and (thought or loop.last) }}
        {{- said }}
        {%- for call in message.tool_calls or [] %}{{- '<tool_call>' ~ call.function | tojson }}{%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ said ~ '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

TEMPLATES = {"ChatML with tools": CHATML, "reasoning": REASONING}

Message = dict[str, Any]


def main() -> int:
    arguments = parse_arguments()
    return conclude("tokenizing", lambda: run(arguments.rounds, arguments.seed), results=arguments.results)


def run(rounds: int, seed: int) -> Report:
    """Run the measurements and return the report."""
    report = Report("tokenizing", "Exact tokens", Circumstances.observe(seed=seed, packages=PACKAGES))
    conversation = [*recorded()]
    tokenizer = trained(message["content"] for message in conversation)
    use_no_threads_of_its_own()
    rows, stages = [], []
    differing = 0
    for name, source in TEMPLATES.items():
        bench = Bench(tokenizer, source, conversation)
        differing += bench.differs()
        whole_ms, turn_ms = bench.measure(rounds)
        shares = [turn / whole for turn, whole in zip(turn_ms, whole_ms, strict=True)]
        share = Spread.of(shares)
        rows.append(
            (name, bench.messages, bench.tokens, bench.new_tokens, Spread.of(whole_ms), Spread.of(turn_ms), share)
        )
        stages += [(f"{name}: {stage}", _median_us(do)) for stage, do in bench.stages().items()]
        report.bars.append(Bar(f"a turn as a share of the whole, {name}, median", share.median, "<=", SHARE_BAR))
        report.figures[name] = {"whole_ms": whole_ms, "turn_ms": turn_ms}
    report.bars.append(Bar("prompts whose tokens differ from those of the whole text", differing, "==", 0))
    columns = ("template", "messages", "tokens", "of them new", "whole, ms", "turn, ms", "share")
    report.tables = [
        Table(f"One prompt, {rounds} rounds", columns, rows),
        Table("What a turn is made of", ("", "microseconds"), stages),
    ]
    report.notes = ["Medians, with the lowest and the highest. Whole and turn take turns, so a busy moment meets both."]
    return report


class Bench:
    """Chat template, with a conversation that is just long enough and its next turn."""

    def __init__(self, tokenizer: Tokenizer, source: str, conversation: Sequence[Message]) -> None:
        self._tokenizer = tokenizer
        self._template = ChatTemplate({"default": source}, special_tokens={}, flags=EngineFlags(), now=datetime.now)
        self._pool = ThreadPoolExecutor(1)  # which nothing here uses
        self.messages = self._long_enough(conversation)
        self._seen = prompt(conversation[: self.messages])
        self.messages += 2
        self._turn = prompt(conversation[: self.messages])
        local = self._local()
        self.tokens = local.tokens(self._turn).tokens
        self.new_tokens = self.tokens - local.tokens(self._seen).tokens

    def differs(self) -> bool:
        """Return whether the remembered tokens of the turn differ from the tokens of the whole text."""
        local = self._local()
        local.tokens(self._seen)
        text = self._template.render(_chat(self._turn)).text
        return local.tokens(self._turn).ids != pack(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def measure(self, rounds: int) -> tuple[list[float], list[float]]:
        """Return milliseconds for the whole prompt and for the turn, round by round."""
        whole, turn = [], []
        for _ in range(rounds):
            local = self._local()
            whole.append(_timed_ms(lambda local=local: local.tokens(self._turn)))  # type: ignore[misc]
            local = self._local()
            local.tokens(self._seen)
            turn.append(_timed_ms(lambda local=local: local.tokens(self._turn)))  # type: ignore[misc]
        return whole, turn

    def stages(self) -> dict[str, Callable[[], object]]:
        """Return the duration of each stage of a turn, with all earlier tokens remembered."""
        segments = self._segments()
        asked = _chat(self._turn)
        text = self._template.render(asked).text
        segments.encode(segments.split(text))
        pieces = segments.split(text)
        return {
            "read the body": lambda: asked_of(PATH, self._turn.body),
            "render": lambda: self._template.render(asked),
            "cut and look up": lambda: segments.split(text),
            "join": lambda: segments.encode(pieces),
        }

    def _long_enough(self, conversation: Sequence[Message]) -> int:
        local = self._local()
        for length in range(2, len(conversation) - 2, 2):
            if local.tokens(prompt(conversation[:length])).tokens >= SEEN_TOKENS:
                return length
        raise AssertionError("the recorded conversations are not long enough")

    def _segments(self) -> Segments:
        return Segments(self._tokenizer, SegmentCache(max_bytes=CACHE_BYTES))

    def _local(self) -> LocalTokenizer:
        """Return a tokenizer that remembers nothing."""
        return LocalTokenizer(self._segments(), self._template, executor=self._pool)


def recorded() -> Iterator[Message]:
    """Yield the messages of all recorded conversations as one conversation, with only the first system prompt."""
    is_first = True
    with CONVERSATIONS.open(encoding="utf-8") as lines:
        for line in lines:
            for message in json.loads(line)["messages"]:
                if message.get("content") and (message["role"] != "system" or is_first):
                    role = message["role"] if message["role"] in ("system", "assistant") else "user"
                    yield {"role": role, "content": message["content"]}
                    is_first = False


def trained(texts: Iterator[str]) -> Tokenizer:
    """Return a trained byte-level BPE tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def prompt(messages: Sequence[Message]) -> RawPrompt:
    """Return the request as HTTP bytes."""
    body = {"model": "m", "stream": True, "tools": [tool(number) for number in range(TOOLS)], "messages": messages}
    return RawPrompt(PATH, json.dumps(body).encode(), "m")


def tool(number: int) -> dict[str, Any]:
    properties = {
        name: {"type": "string", "description": f"The {name} of the reservation, as the customer has it."}
        for name in ("reservation", "customer", "flight", "cabin")
    }
    return {
        "type": "function",
        "function": {
            "name": f"change_reservation_{number}",
            "description": "Changes a reservation, where the policy allows it and the customer has agreed.",
            "parameters": {"type": "object", "properties": properties, "required": ["reservation"]},
        },
    }


def _chat(asking: RawPrompt) -> Any:
    return asked_of(asking.path, asking.body)


def _timed_ms(do: Callable[[], object]) -> float:
    begun = time.perf_counter()
    do()
    return (time.perf_counter() - begun) * 1e3


def _median_us(do: Callable[[], object]) -> float:
    return Spread.of(_timed_ms(do) * 1e3 for _ in range(51)).median


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser("tokenizing", __doc__)
    parser.add_argument("--rounds", type=int, default=101)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
