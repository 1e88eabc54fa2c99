"""What the gateway keeps by what callers send is bounded in bytes, however long that is and however often it comes.

`KEPT` lists every such structure with its bound and with an adversary that fills it: names of 64 KiB, each another.
"""

import ast
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cache_index import Hasher, WorkerId
from cache_index.radix import RadixTree
from cache_index.tokens import TokenHasher, pack
from gateway.models.response_affinity.owners import ResponseOwner, ResponseOwners
from gateway.models.tokenizing.segment_cache import SegmentCache
from gateway.protocol.body import parse_chat
from gateway.protocol.networks import address_in
from gateway.protocol.request_hints import short_name
from gateway.protocol.usage import Usage
from gateway.proxy.guardrails.scanning import ScanFilter
from gateway.proxy.response_cache.answer_store import AnswerStore, KeptAnswer
from gateway.proxy.response_cache.response_cache import Claim, ResponseCache
from gateway.proxy.tracing.content import Content
from gateway.server.shared_state import HeaderNames
from gateway.telemetry.caches.hot_prefixes import MAX_COUNTERS, MAX_TEAMS
from gateway.telemetry.caches.prefix_words import PrefixWords
from gateway.telemetry.request_log import FieldGroup
from gateway.telemetry.trace_export.delivery import CompletedTrace, Delivery
from gateway.tenancy.ledger.recorder import Recorder
from gateway.tenancy.quota.meters import Meters
from gateway.tenancy.quota.plan import Calendar, Metered, Plans
from gateway.tenancy.teams.limits import Limits
from routing.request import Request
from routing.sessions import Sessions
from tests.fakes.backends import Answers
from tests.gateway.examples import CHAT, a_model, an_exchange
from tests.gateway.proxy.guardrails.examples import a_filter, a_question
from tests.gateway.telemetry.trace_export.examples import a_trace
from tests.gateway.tenancy.quota.examples import caller
from tests.routing.examples import a_request

ROOT = Path(__file__).parents[2]
MIB = 2**20
LONG = 64 * 1024
"""Characters of each name that an adversary sends."""
COUNT = 600
"""Names that it sends: nearly 40 MiB if they were kept."""


def long_names() -> Iterator[str]:
    for number in range(COUNT):
        yield f"{number:08}" * (LONG // 8)


@dataclass(frozen=True)
class Kept:
    """One structure, what callers fill it with, and the bytes that it may have in the end."""

    bound: int
    fill: Callable[[], object]


def _sessions() -> object:
    sessions = Sessions()
    for name in long_names():
        sessions.begins(a_request("abcd", session=name))
    return sessions


def _scopes_of_text() -> object:
    hasher = Hasher(b"k" * 32, block_bytes=64)
    for name in long_names():
        hasher.prefix(b"x" * 64, scope=name.encode())
    return hasher


def _scopes_of_tokens() -> object:
    hasher = TokenHasher(b"k" * 32)
    ids = pack([1] * 16)
    for name in long_names():
        hasher.prefix(ids, block_size=16, scope=name.encode())
    return hasher


def _prefixes() -> object:
    tree, hasher = RadixTree(max_bytes=2 * MIB, default_capacity=2**40), Hasher(b"k" * 32, block_bytes=64)
    for name in long_names():
        tree.record(WorkerId("a"), hasher.prefix(name.encode()))
    return tree


def _owners() -> object:
    owners = ResponseOwners(most=100)
    for name in long_names():
        owners.remember(name, ResponseOwner("tiny", WorkerId("a"), "blue"))
    return owners


class _AwayStore:
    async def find(self, digest: str) -> ResponseOwner | None:
        raise NotImplementedError

    async def keep(self, owners: Any) -> Any:
        raise NotImplementedError


def _owners_unwritten() -> object:
    owners = ResponseOwners(_AwayStore(), most=100)
    for name in long_names():
        owners.remember(name, ResponseOwner("tiny", WorkerId("a"), "blue"))
    return owners


def _requests() -> object:
    model = a_model(Answers())
    kept: list[Request] = []
    for name in long_names():
        body = parse_chat(CHAT).changed(session=name, user=name)
        kept.append(model.request(body, lambda _: None, None))
    return kept


def _entries() -> object:
    kept: list[object] = []
    recorder = _recorder()
    for name in long_names():
        entry = recorder.entry(
            at=1.0,
            request_id="r",
            team="blue",
            project=None,
            key="k",
            user=name,
            model_asked=name,
            model="tiny",
            backend="a",
            outcome="ok",
            status=200,
            prompt_tokens=1,
            cached_tokens=0,
            completion_tokens=1,
            cost_nano=0,
            saved_nano=0,
            fell_back=False,
            ttft_s=None,
            duration_s=1.0,
        )
        kept.append(entry)
    return kept


def _meters() -> object:
    """Limits of end users and sessions of one team, in plans and in memory."""
    plans = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(ZoneInfo("UTC")))
    who = caller(user=Limits(tokens_per_day=100, requests_per_minute=5), session=Limits(concurrent=1))
    metered, meters = Metered("tiny", lambda prompt, cached, completion: 0.0), Meters(max_limits=1000)
    for name in long_names():
        for each in (short_name(name), short_name(name) + "-2"):
            plan = plans.plan_for(who, metered, each, "blue\0" + each)
            meters.reserve("blue", each, plan.nothing(1.0), 1.0)
            meters.cancel(each)
    return plans, meters


def _log_fields() -> object:
    """Words of ours alone: what callers send is not among them."""
    fields = FieldGroup("path", "team", most=2048)
    for number in range(4096):
        fields.cached((f"/v1/{number % 20}", f"team-{number}"))
    return fields


def _header_names() -> object:
    names = HeaderNames()
    for name in long_names():
        names.lower(name.encode())
        names.lower(name[:64].encode())
    return names


def _addresses() -> object:
    for name in long_names():
        address_in(name)
    return address_in


def _tokens() -> object:
    cache = SegmentCache(max_bytes=MIB)
    for name in long_names():
        cache.put([(cache.keys([name])[0], pack([1] * 1000))])
    return cache


def _answers() -> object:
    store = AnswerStore(max_bytes=2 * MIB, max_answer_bytes=MIB, expire_s=3600.0)
    for number, name in enumerate(long_names()):
        store.keep(b"%032d" % number, KeptAnswer(name.encode(), b"text/event-stream", None, 0.0))
    return store


def _small_answers() -> object:
    """The bytes around each answer count as well."""
    store = AnswerStore(max_bytes=MIB, max_answer_bytes=MIB, expire_s=3600.0)
    for number in range(10_000):
        answer = KeptAnswer(b"%d" % number, b"text/event-%d" % number, Usage(number, number, number), float(number))
        store.keep(b"%032d" % number, answer)
    return store


def _recordings() -> object:
    """Streams of many requests that have not ended."""
    store = AnswerStore(max_bytes=2 * MIB, max_answer_bytes=MIB, expire_s=3600.0)
    cache = ResponseCache(store, secret=b"s" * 32, clock=lambda: 0.0)
    kept: list[object] = []
    for name in long_names():
        claim = Claim(cache, b"k", 0, None)
        claim.begin_recording()
        claim.record(name.encode())
        kept.append(claim)
    return kept


def _traces() -> object:
    """Prompts and answers that no one takes; the thread of their destination waits."""

    class Encodes:
        def spans(self, ended: CompletedTrace) -> list[Any]:
            return []

        def message(self, spans: Any) -> bytes:
            return b""

    class Sends:
        def __call__(self, message: bytes, stop: Any) -> str | None:
            return None

        def close(self) -> None:
            """Nothing is open."""

    delivery = Delivery("operator", Encodes(), Sends(), max_content_bytes=MIB, collect_s=3600)
    for name in long_names():
        trace = a_trace()
        trace.content = Content(LONG)
        trace.content.asked(name.encode())
        delivery.offer(CompletedTrace(an_exchange(), trace, 1.0))
    kept = list(delivery._waiting)
    delivery._waiting.clear()
    delivery.close(10)
    return kept


def _words_of_prefixes() -> object:
    words, hasher = PrefixWords(lambda team: True, block_bytes=64), Hasher(b"k" * 32, block_bytes=64)
    for number in range(8 * MAX_COUNTERS):
        text = f"{number:08}".encode() * 64
        for team in range(2 * MAX_TEAMS):
            words.learn(hasher.prefix(text), f"team-{team}", text)
    return words


def _recorder() -> Recorder:
    return Recorder(wall_clock=lambda: 1.0, zone=ZoneInfo("UTC"))


KEPT: dict[str, Kept] = {
    "routing.sessions.Sessions": Kept(2 * MIB, _sessions),
    "cache_index.prefix.Hasher, seeds of scopes": Kept(MIB, _scopes_of_text),
    "cache_index.tokens.TokenHasher, digests of scopes": Kept(MIB, _scopes_of_tokens),
    "cache_index.radix.RadixTree": Kept(3 * MIB, _prefixes),
    "gateway.models.response_affinity.owners.ResponseOwners": Kept(MIB, _owners),
    "gateway.models.response_affinity.owners.ResponseOwners, unwritten": Kept(MIB, _owners_unwritten),
    "routing.request.Request, while it waits": Kept(2 * MIB, _requests),
    "gateway.tenancy.ledger.entry.Entry, while the store is away": Kept(2 * MIB, _entries),
    "gateway.tenancy.quota.plan.Plans and gateway.tenancy.quota.meters.Meters": Kept(12 * MIB, _meters),
    "gateway.telemetry.request_log.Fields": Kept(2 * MIB, _log_fields),
    "gateway.server.shared_state.HeaderNames": Kept(MIB, _header_names),
    "gateway.protocol.networks.address_in": Kept(MIB, _addresses),
    "gateway.models.tokenizing.segment_cache.SegmentCache": Kept(2 * MIB, _tokens),
    "gateway.telemetry.caches.prefix_words.PrefixWords": Kept(3 * MIB, _words_of_prefixes),
    "gateway.proxy.response_cache.answer_store.AnswerStore": Kept(3 * MIB, _answers),
    "gateway.proxy.response_cache.answer_store.AnswerStore, of small answers": Kept(MIB, _small_answers),
    "gateway.proxy.response_cache.response_cache.Claim, recordings of streams": Kept(MIB, _recordings),
    "gateway.telemetry.trace_export.delivery.Delivery": Kept(8 * MIB, _traces),
}

CACHES = {
    "cache_index/prefix.py": "seeds of scopes of up to 512 bytes, 256 of them",
    "cache_index/tokens.py": "digests of scopes of up to 512 bytes, 1024 of them",
    "gateway/picker/destinations.py": "URLs and host names of workers, which are ours",
    "gateway/proxy/downstream.py": "names of backends, which are ours",
    "gateway/protocol/networks.py": "addresses of up to 100 characters, 1024 of them",
    "gateway/proxy/response_cache/answer_store.py": "an OrderedDict bounded in bytes",
    "gateway/telemetry/trace_export/otlp.py": "attributes of up to 64 characters, names of up to 256, 4096 of them",
    "gateway/api/admin_v1/answers.py": "OrderedDict of answers to administrators, bounded in bytes (`MAX_BYTES`)",
    "gateway/console/login_limit.py": "OrderedDict of addresses and networks, 4096 of them",
    "gateway/models/response_affinity/owners.py": "OrderedDicts by digest",
    "gateway/models/tokenizing/segment_cache.py": "an OrderedDict bounded in bytes",
}
"""Modules that remember things by functools or in an OrderedDict, and why that is bounded in bytes."""


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_is_bounded_in_bytes(name: str) -> None:
    """600 names of 64 KiB leave no more behind than the bound."""
    kept = KEPT[name]
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        held = kept.fill()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held is not None
    assert after - before <= kept.bound


async def test_texts_without_findings_are_remembered_by_their_hash() -> None:
    """A filter that looked at 600 long texts keeps none of them."""
    looks = a_filter()
    assert isinstance(looks, ScanFilter)
    for number in range(50):
        await looks.verdict(a_question(f"{number:08} " * 1000))

    assert {int} == {type(key) for key in looks._clean}


def test_a_long_name_is_the_same_name_everywhere() -> None:
    """Its digest stands for it, so that sessions and variants stay where they are."""
    name = "s" * LONG

    assert short_name(name) == short_name("s" * LONG)
    assert short_name(name) != short_name("s" * (LONG - 1))
    assert "s" * 256 == short_name("s" * 256)
    assert 40 == len(short_name(name))


def remembering(path: Path) -> bool:
    """Whether the module uses functools' caches, or an OrderedDict."""
    names, modules = {"lru_cache", "cache", "cached_property", "OrderedDict"}, {"functools", "collections"}
    used: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            used.add(node.attr)
    return bool(used & names)


def test_nothing_remembers_without_being_listed() -> None:
    """A new cache says here why what callers send cannot make it large."""
    found = {
        str(path.relative_to(ROOT))
        for package in ("cache_index", "routing", "gateway")
        for path in (ROOT / package).rglob("*.py")
        if "simulator" not in path.parts and remembering(path)
    }

    assert sorted(CACHES) == sorted(found)
