from cache_index.tokens import TokenHasher, pack, scope_of
from gateway.exact_prompts import ExactPrompts
from gateway.tokenizing.exactness import Exact, NotExact
from gateway.tokenizing.rung import RawPrompt
from routing.fleet import Fleet
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, stored, told_fleet
from tests.routing.examples import A, B

IDS = list(range(40))


class Tells:
    """A rung that gives the same answer to all."""

    def __init__(self, outcome: Exact | NotExact) -> None:
        self.outcome = outcome
        self.asked: list[RawPrompt] = []

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        self.asked.append(prompt)
        return self.outcome


def prompts(rung: Tells, fleet: Fleet, *, adapter: str | None = None) -> ExactPrompts:
    return ExactPrompts(rung, fleet, hasher=TOKEN_HASHER, upstream_name="upstream", base=MODEL, adapter=adapter)


def telling_fleet() -> Fleet:
    """a has blocks of 16 tokens, b of 8."""
    fleet, confirmed = told_fleet(A, B)
    confirmed.apply(A, stored("a"), model=MODEL)
    confirmed.apply(B, stored("a", block_tokens=8), model=MODEL)
    fleet.tick(0.0)
    return fleet


async def test_a_prompt_is_hashed_for_each_size_of_blocks() -> None:
    """40 tokens are five blocks of 8 and two of 16; they are hashed in the scope of model and salt."""
    rung = Tells(Exact(pack(IDS), 40))
    prompt = await prompts(rung, telling_fleet()).of("/v1/completions", b"{}", "pepper")

    assert prompt is not None
    scope = scope_of(MODEL, None, "pepper")
    assert (
        TOKEN_HASHER.prefix(pack(IDS), block_size=8, scope=scope),
        TOKEN_HASHER.prefix(pack(IDS), block_size=16, scope=scope),
    ) == prompt.prefixes
    assert 40 == prompt.tokens
    assert [RawPrompt("/v1/completions", b"{}", "upstream")] == rung.asked


async def test_an_adapter_has_a_cache_of_its_own() -> None:
    """Its blocks are those that its name stands with in what the engine tells."""
    prompt = await prompts(Tells(Exact(pack(IDS), 40)), telling_fleet(), adapter="sql").of("/v1/completions", b"", None)

    assert prompt is not None
    assert TOKEN_HASHER.prefix(pack(IDS), block_size=8, scope=scope_of(MODEL, "sql")) == prompt.prefixes[0]


async def test_only_what_is_certain_is_hashed() -> None:
    """An image stands behind the first 17 of 40 tokens."""
    prompt = await prompts(Tells(Exact(pack(IDS), 17)), telling_fleet()).of("/v1/chat/completions", b"", None)

    assert prompt is not None
    assert [2, 1] == [prefix.blocks for prefix in prompt.prefixes]
    assert 40 == prompt.tokens


async def test_what_cannot_be_told_is_counted_by_its_reason() -> None:
    """So are those that can."""
    rung = Tells(NotExact("slow"))
    asked = prompts(rung, telling_fleet())

    assert await asked.of("/v1/completions", b"", None) is None
    rung.outcome = Exact(pack(IDS), 40)
    assert await asked.of("/v1/completions", b"", None) is not None
    assert (1, {"slow": 1}) == (asked.known, asked.unknown)


async def test_nobody_is_asked_while_no_engine_tells_of_its_cache() -> None:
    """There would be nothing to compare the tokens with."""
    rung = Tells(Exact(pack(IDS), 40))
    fleet, _ = told_fleet(A)

    assert await prompts(rung, fleet).of("/v1/completions", b"", None) is None
    assert [] == rung.asked


def test_the_hasher_has_to_be_that_of_the_events() -> None:
    """Another key, other hashes: nothing would ever be found."""
    assert TokenHasher(b"x" * 32).prefix(pack(IDS), block_size=8) != TOKEN_HASHER.prefix(pack(IDS), block_size=8)
