from cache_index.tokens import TokenHasher, pack, scope_of
from gateway.models.exact_prompts import ExactPrompts
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt
from routing.fleet import Fleet
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, reporting_fleet, stored
from tests.routing.examples import A, B

IDS = list(range(40))


class Reports:
    """A token_source that gives the same answer to all."""

    def __init__(self, outcome: Exact | NotExact) -> None:
        self.outcome = outcome
        self.asked: list[RawPrompt] = []

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        self.asked.append(prompt)
        return self.outcome


def prompts(token_source: Reports, fleet: Fleet, *, adapter: str | None = None) -> ExactPrompts:
    return ExactPrompts(token_source, fleet, hasher=TOKEN_HASHER, upstream_name="upstream", base=MODEL, adapter=adapter)


def telling_fleet() -> Fleet:
    """a has blocks of 16 tokens, b of 8."""
    fleet, confirmed = reporting_fleet(A, B)
    confirmed.apply(A, stored("a"), model=MODEL)
    confirmed.apply(B, stored("a", block_tokens=8), model=MODEL)
    fleet.tick(0.0)
    return fleet


async def test_a_prompt_is_hashed_for_each_size_of_blocks() -> None:
    """40 tokens are five blocks of 8 and two of 16; they are hashed in the scope of model and salt."""
    token_source = Reports(Exact(pack(IDS), 40))
    prompt = await prompts(token_source, telling_fleet()).tokenize("/v1/completions", b"{}", "pepper")

    assert prompt is not None
    scope = scope_of(MODEL, None, "pepper")
    assert (
        TOKEN_HASHER.prefix(pack(IDS), block_size=8, scope=scope),
        TOKEN_HASHER.prefix(pack(IDS), block_size=16, scope=scope),
    ) == prompt.prefixes
    assert 40 == prompt.tokens
    assert [RawPrompt("/v1/completions", b"{}", "upstream")] == token_source.asked


async def test_an_adapter_has_a_cache_of_its_own() -> None:
    """Its blocks are those that its name stands with in what the engine reports."""
    prompt = await prompts(Reports(Exact(pack(IDS), 40)), telling_fleet(), adapter="sql").tokenize(
        "/v1/completions", b"", None
    )

    assert prompt is not None
    assert TOKEN_HASHER.prefix(pack(IDS), block_size=8, scope=scope_of(MODEL, "sql")) == prompt.prefixes[0]


async def test_only_what_is_certain_is_hashed() -> None:
    """An image stands behind the first 17 of 40 tokens."""
    prompt = await prompts(Reports(Exact(pack(IDS), 17)), telling_fleet()).tokenize("/v1/chat/completions", b"", None)

    assert prompt is not None
    assert [2, 1] == [prefix.blocks for prefix in prompt.prefixes]
    assert 40 == prompt.tokens


async def test_what_cannot_be_reported_is_counted_by_its_reason() -> None:
    """Known ones are counted as well."""
    token_source = Reports(NotExact("slow"))
    asked = prompts(token_source, telling_fleet())

    assert await asked.tokenize("/v1/completions", b"", None) is None
    token_source.outcome = Exact(pack(IDS), 40)
    assert await asked.tokenize("/v1/completions", b"", None) is not None
    assert (1, {"slow": 1}) == (asked.known, asked.unknown)


async def test_no_one_is_asked_while_no_engine_reports_of_its_cache() -> None:
    """There would be nothing to compare the tokens with."""
    token_source = Reports(Exact(pack(IDS), 40))
    fleet, _ = reporting_fleet(A)

    assert await prompts(token_source, fleet).tokenize("/v1/completions", b"", None) is None
    assert [] == token_source.asked


def test_the_hasher_has_to_be_that_of_the_events() -> None:
    """Another key, other hashes: nothing would ever be found."""
    assert TokenHasher(b"x" * 32).prefix(pack(IDS), block_size=8) != TOKEN_HASHER.prefix(pack(IDS), block_size=8)
