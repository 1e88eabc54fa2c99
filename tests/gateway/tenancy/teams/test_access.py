import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gateway.protocol.errors import Forbidden, GatewayError, InvalidKey, StoreUnavailable
from gateway.tenancy.teams.access import MOST_REMEMBERED, Access
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.rotation import rotated
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Snapshot

SECRET, FORMER, OTHER = "wg-ci-present", "wg-ci-former", "wg-dev-other"
DIGESTER = Digester(b"pepper")
BLUE = Team("blue")
CI = Key("ci", "blue", DIGESTER.digest(SECRET))
NOT_BEARER = "The header 'authorization' must be the word Bearer, a space and an API key"
TWO = "The request has two different API keys: send only one"
NONE = "No API key was given: send one as authorization: Bearer API_KEY"
UNKNOWN = "The API key is not known"


@dataclass
class Desk:
    """Access to a directory with the team blue and its keys, at a time that a test sets."""

    key: Key = CI
    team: Team = BLUE
    trusted_proxies: tuple[str, ...] = ()
    now: float = 1000.0
    directory: Directory = field(default_factory=lambda: Directory(is_followed=True))

    def __post_init__(self) -> None:
        dev = Key("dev", "blue", DIGESTER.digest(OTHER))
        self.directory.apply(Snapshot(1, {"blue": self.team}, {"ci": self.key, "dev": dev}))
        self.access = Access(
            self.directory, DIGESTER, wall_clock=lambda: self.now, trusted_proxies=self.trusted_proxies
        )

    def asks(self, peer: str | None = "192.0.2.1", secret: str = SECRET, **headers: str) -> str:
        """Return the id of the key by which it is admitted."""
        given = headers or {"authorization": f"Bearer {secret}"}
        header = header_of(given)
        caller = self.access.caller(header, peer, header)
        assert caller is not None
        return caller.key.id


def header_of(headers: Mapping[str, str]) -> Callable[[bytes], str | None]:
    known = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return lambda name: known.get(name) or None


def why(desk: Desk, **arguments: str) -> str:
    """Return the reason of a 401, without its common beginning."""
    with pytest.raises(InvalidKey) as refused:
        desk.asks(**arguments)
    assert (401, "invalid_api_key") == (refused.value.status, refused.value.code)
    assert refused.value.message.startswith("Incorrect API key provided. ")
    return refused.value.message.removeprefix("Incorrect API key provided. ").removesuffix(".")


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {SECRET}"},
        {"authorization": f"bearer {SECRET}"},
        {"authorization": f"Bearer   {SECRET} "},
        {"x_api_key": SECRET},
        {"api_key": SECRET},
        {"api_key": f" {SECRET} "},
        # Some clients send it in two headers.
        {"authorization": f"Bearer {SECRET}", "x_api_key": SECRET},
        {"x_api_key": SECRET, "api_key": SECRET},
    ],
)
def test_a_key_is_taken_from_any_of_three_headers(headers: dict[str, str]) -> None:
    assert "ci" == Desk().asks(**headers)


def test_the_caller_is_the_same_object_for_all_requests() -> None:
    desk, header = Desk(), header_of({"api-key": SECRET})

    assert desk.access.caller(header, None) is desk.access.caller(header, "192.0.2.1") is desk.directory.caller("ci")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"accept": "*/*"}, NONE),
        ({"x_api_key": "  "}, NONE),
        (
            {"authorization": "Bearer"},
            NOT_BEARER,
        ),
        (
            {"authorization": SECRET},
            NOT_BEARER,
        ),
        (
            {"authorization": f"Basic {SECRET}"},
            NOT_BEARER,
        ),
        ({"authorization": f"Bearer {SECRET}x"}, UNKNOWN),
        ({"authorization": f"Bearer {SECRET} {SECRET}"}, UNKNOWN),
        ({"authorization": f"Bearer {SECRET}, Bearer {SECRET}"}, UNKNOWN),
        ({"authorization": "Bearer Schlüssel"}, UNKNOWN),
        ({"api_key": DIGESTER.digest(SECRET)}, UNKNOWN),
        ({"authorization": f"Bearer {SECRET}", "api_key": OTHER}, TWO),
        ({"x_api_key": SECRET, "api_key": OTHER}, TWO),
        ({"authorization": f"Basic {SECRET}", "api_key": SECRET}, NOT_BEARER),
    ],
)
def test_without_one_known_key_requests_are_refused(headers: dict[str, str], message: str) -> None:
    assert message == why(Desk(), **headers)


@pytest.mark.parametrize(
    ("key", "team", "message"),
    [
        ({"blocked": True}, {}, "The API key 'ci' is blocked"),
        ({}, {"blocked": True}, "The team 'blue' of the API key 'ci' is blocked"),
        ({"expires_at": 1000.0}, {}, "The API key 'ci' has expired"),
    ],
)
def test_a_client_with_the_secret_gets_the_reason(
    key: dict[str, object], team: dict[str, object], message: str
) -> None:
    desk = Desk(Key("ci", "blue", DIGESTER.digest(SECRET), **key), Team("blue", **team))  # type: ignore[arg-type]

    assert message == why(desk)
    assert UNKNOWN == why(desk, secret="wg-ci-guessed")


def test_a_key_counts_until_it_expires() -> None:
    desk = Desk(Key("ci", "blue", DIGESTER.digest(SECRET), expires_at=1060.0))

    desk.now = 1059.9
    assert "ci" == desk.asks()
    desk.now = 1060.0
    assert "The API key 'ci' has expired" == why(desk)


def test_a_former_secret_counts_until_its_grace_ends() -> None:
    desk = Desk(rotated(Key("ci", "blue", DIGESTER.digest(FORMER)), DIGESTER.digest(SECRET), grace_s=60.0, now=1000.0))

    desk.now = 1059.9
    assert ["ci", "ci"] == [desk.asks(secret=FORMER), desk.asks(secret=SECRET)]
    desk.now = 1060.0
    assert "The API key 'ci' has a new secret, and the old secret is no longer valid" == why(desk, secret=FORMER)
    assert "ci" == desk.asks(secret=SECRET)


def test_a_former_secret_opens_no_more_than_the_present_one() -> None:
    key = rotated(Key("ci", "blue", DIGESTER.digest(FORMER)), DIGESTER.digest(SECRET), grace_s=60.0, now=1000.0)
    blocked = Key("ci", "blue", key.digest, key.former_digest, key.former_until, blocked=True)
    elsewhere = Key("ci", "blue", key.digest, key.former_digest, key.former_until, networks=("10.0.0.0/8",))

    assert "The API key 'ci' is blocked" == why(Desk(blocked), secret=FORMER)
    with pytest.raises(Forbidden):
        Desk(elsewhere).asks(secret=FORMER)


def test_a_former_secret_without_an_end_counts_no_more() -> None:
    desk = Desk(Key("ci", "blue", DIGESTER.digest(SECRET), DIGESTER.digest(FORMER)))

    assert "The API key 'ci' has a new secret, and the old secret is no longer valid" == why(desk, secret=FORMER)


def test_a_key_that_was_revoked_is_not_known() -> None:
    """Earlier requests do not matter."""
    desk = Desk()
    desk.asks()
    desk.directory.apply(Snapshot(2, {"blue": Team("blue")}, {}))

    assert UNKNOWN == why(desk)


def test_a_key_that_is_blocked_meanwhile_is_refused() -> None:
    desk = Desk()
    desk.asks()
    desk.directory.apply(Snapshot(2, {"blue": Team("blue", blocked=True)}, {"ci": desk.key}))

    assert "The team 'blue' of the API key 'ci' is blocked" == why(desk)


def test_declared_keys_pass_as_stored_ones_do() -> None:
    desk = Desk()
    desk.directory.declare(Declared({"red": Team("red")}, {"d": Key("d", "red", DIGESTER.digest("any text"))}))

    assert "d" == desk.asks(api_key="any text")


# ---- networks


def at(**arguments: object) -> Desk:
    key = Key("ci", "blue", DIGESTER.digest(SECRET), networks=("192.0.2.0/24", "2001:db8::/32"))
    return Desk(key, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("peer", ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7"])
def test_a_key_may_be_used_from_its_networks(peer: str) -> None:
    assert "ci" == at().asks(peer)


@pytest.mark.parametrize("peer", ["198.51.100.1", "2001:db9::1", "", "unix", None])
def test_a_key_may_not_be_used_from_elsewhere(peer: str | None) -> None:
    with pytest.raises(Forbidden) as refused:
        at().asks(peer)

    assert (403, "source_not_allowed") == (refused.value.status, refused.value.code)


def test_a_key_with_no_networks_at_all_may_be_used_from_nowhere() -> None:
    with pytest.raises(Forbidden):
        Desk(Key("ci", "blue", DIGESTER.digest(SECRET), networks=())).asks("127.0.0.1")


def test_a_trusted_proxy_says_where_a_request_comes_from() -> None:
    desk = at(trusted_proxies=("10.0.0.0/8",))
    bearer = f"Bearer {SECRET}"

    assert "ci" == desk.asks("10.0.0.1", authorization=bearer, x_forwarded_for="198.51.100.1, 192.0.2.7")
    with pytest.raises(Forbidden, match=r"may not be used from 198\.51\.100\.1"):
        desk.asks("10.0.0.1", authorization=bearer, x_forwarded_for="192.0.2.7, 198.51.100.1")


def test_anybody_else_says_nothing() -> None:
    with pytest.raises(Forbidden):
        at().asks("198.51.100.1", authorization=f"Bearer {SECRET}", x_forwarded_for="192.0.2.7")


def test_one_value_of_many_is_not_believed() -> None:
    """Without all values of the header, the value of a client would pass for that of the proxy."""
    header = header_of({"api-key": SECRET, "x-forwarded-for": "192.0.2.7"})
    with pytest.raises(Forbidden):
        at(trusted_proxies=("10.0.0.0/8",)).access.caller(header, "10.0.0.1")


# ---- the store is unavailable


def test_known_keys_stay_valid_while_the_store_is_unavailable() -> None:
    desk = Desk(Key("ci", "blue", DIGESTER.digest(SECRET), expires_at=1060.0))
    desk.directory.fall_behind()

    assert "ci" == desk.asks()
    desk.now = 1060.0
    assert "The API key 'ci' has expired" == why(desk)


def test_an_unknown_key_gets_503_while_the_store_is_unavailable() -> None:
    desk = Desk()
    desk.directory.fall_behind()
    with pytest.raises(StoreUnavailable) as refused:
        desk.asks(secret="wg-x-new")

    assert (503, 1.0) == (refused.value.status, refused.value.retry_after_s)


@pytest.mark.parametrize("headers", [{"accept": "*/*"}, {"authorization": "Bearer Schlüssel"}])
def test_an_impossible_key_gets_401_while_the_store_is_unavailable(headers: dict[str, str]) -> None:
    desk = Desk()
    desk.directory.fall_behind()

    assert why(desk, **headers)


# ---- nothing is set


def open_access() -> Access:
    return Access(Directory(), DIGESTER, wall_clock=lambda: 0.0, is_open=True)


def test_without_teams_this_machine_may_ask() -> None:
    """The key does not matter: some clients always send one."""
    local = {b"host": b"localhost", b"authorization": b"Bearer none"}

    assert open_access().caller(header_of({"authorization": "Bearer none"}), "127.0.0.1", fields=local) is None
    assert open_access().caller(header_of({}), None) is None


async def test_without_teams_other_machines_are_refused() -> None:
    """A call without headers is refused too."""
    with pytest.raises(Forbidden, match=r"Set teams with keys in the configuration \(teams\)"):
        open_access().caller(header_of({}), "192.0.2.1", fields={b"host": b"localhost"})
    with pytest.raises(Forbidden, match=r"HTTP/1\.0"):
        await open_access().sure_caller(
            header_of({}), "::1", fields={b"host": b"localhost", b"connection": b"close"}, is_http_1_0=True
        )
    with pytest.raises(Forbidden, match="for the host ''"):
        open_access().caller(header_of({}), "127.0.0.1")


def test_with_a_team_a_key_is_required() -> None:
    """The first key ends open mode, also for this machine."""
    desk = Desk()
    at = Access(desk.directory, DIGESTER, wall_clock=lambda: 0.0, is_open=True)
    with pytest.raises(InvalidKey):
        at.caller(header_of({}), "127.0.0.1")

    assert at.caller(header_of({"api-key": SECRET}), "127.0.0.1") is desk.directory.caller("ci")
    assert (True, False) == (open_access().is_open, at.is_open)


def test_keys_are_known_by_another_digester_from_the_moment_it_is_given() -> None:
    """A store that was unavailable at the start is found, and its pepper with it."""
    desk, other = Desk(), Digester(b"other")
    assert "ci" == desk.asks()
    desk.access.use(other)
    assert UNKNOWN == why(desk)

    desk.directory.apply(Snapshot(2, {"blue": BLUE}, {"ci": Key("ci", "blue", other.digest(SECRET))}))
    assert "ci" == desk.asks()


# ---- marked callers

BEARER = b"Bearer " + SECRET.encode()


def marked(desk: Desk, **fields: bytes) -> bool:
    """Return whether *fields* are known after `caller` has found their caller."""
    given = {name.replace("_", "-").encode(): value for name, value in fields.items()}
    desk.access.known(given)  # as before every request
    caller = desk.access.caller(header_of({name: value.decode() for name, value in fields.items()}), "192.0.2.1")
    assert caller is not None
    desk.access.mark(given, caller)
    known = desk.access.known(given)
    assert known is None or known is caller
    return known is caller


def test_a_found_caller_is_known_by_the_same_headers() -> None:
    desk = Desk()

    assert desk.access.known({b"authorization": BEARER}) is None
    assert marked(desk, authorization=BEARER)
    for said in (BEARER + b" ", BEARER[:-1], b"bearer" + BEARER[6:], b""):
        assert desk.access.known({b"authorization": said}) is None


def test_a_second_key_beside_a_marked_one_is_looked_at() -> None:
    desk = Desk()
    assert marked(desk, authorization=BEARER)

    for name in (b"x-api-key", b"api-key"):
        assert desk.access.known({b"authorization": BEARER, name: OTHER.encode()}) is None
    assert desk.access.known({b"x-api-key": SECRET.encode()}) is None


@pytest.mark.parametrize(
    "more",
    [{"expires_at": 2000.0}, {"networks": ("192.0.2.0/24",)}],
    ids=["expires", "networks"],
)
def test_a_caller_that_needs_more_than_the_secret_is_not_marked(more: dict[str, Any]) -> None:
    assert not marked(Desk(key=structs.replace(CI, **more)), authorization=BEARER)


def test_a_former_secret_is_not_marked() -> None:
    """It ends with time, without a change of keys."""
    desk = Desk(key=structs.replace(CI, former_digest=DIGESTER.digest(FORMER), former_until=2000.0))

    assert not marked(desk, authorization=b"Bearer " + FORMER.encode())
    assert marked(desk, authorization=BEARER)


def test_a_mark_ends_with_any_change_of_teams_or_keys() -> None:
    """This holds for every change, before the next request."""
    desk = Desk()
    assert marked(desk, authorization=BEARER)
    desk.directory.apply(Snapshot(2, {"blue": BLUE}, {"ci": structs.replace(CI, blocked=True)}))

    assert desk.access.known({b"authorization": BEARER}) is None
    assert "blocked" in why(desk)


def test_a_caller_found_before_a_change_is_not_marked_after_it() -> None:
    desk = Desk()
    found = desk.access.caller(header_of({"authorization": BEARER.decode()}), None)
    assert found is not None
    desk.directory.apply(Snapshot(2, {"blue": BLUE}, {}))
    desk.access.mark({b"authorization": BEARER}, found)

    assert desk.access.known({b"authorization": BEARER}) is None


def test_marks_end_with_the_digester() -> None:
    desk = Desk()
    assert marked(desk, authorization=BEARER)
    desk.access.use(Digester(b"other"))

    assert desk.access.known({b"authorization": BEARER}) is None


# ---- hostile headers

PIECES = (SECRET, FORMER, "Bearer", " ", ",", "\t", "\x00", "é", SECRET[:-1], SECRET.upper(), DIGESTER.digest(SECRET))


@given(st.dictionaries(st.sampled_from(["authorization", "x-api-key", "api-key"]), st.text(max_size=300)))
def test_garbage_is_refused_in_the_shape_of_an_error(headers: dict[str, str]) -> None:
    with pytest.raises(GatewayError):
        Desk().access.caller(header_of(headers), "192.0.2.1")


@given(
    st.dictionaries(
        st.sampled_from(["authorization", "x-api-key", "api-key", "proxy-authorization", "cookie", "x-forwarded-for"]),
        st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
    )
)
def test_only_the_whole_secret_in_its_place_opens(headers: dict[str, str]) -> None:
    """Parts of the secret in any order and place are refused."""
    sent = [headers[name].strip() for name in ("x-api-key", "api-key") if headers.get(name)]
    authorization = headers.get("authorization")
    if authorization:
        sent.append(authorization[7:].strip() if authorization.startswith("Bearer ") else "")
    try:
        caller = Desk().access.caller(header_of(headers), "192.0.2.1")
    except InvalidKey as refused:
        assert {SECRET} != set(sent)
        assert SECRET not in refused.message  # noqa: PT017
    else:
        assert caller is not None
        assert {SECRET} == set(sent)


@pytest.mark.parametrize("order", [*itertools.permutations(["authorization", "x-api-key", "api-key"])])
def test_a_wrong_key_in_any_header_closes(order: tuple[str, str, str]) -> None:
    """The order does not matter."""
    right, wrong, absent = order
    headers = {right: SECRET, wrong: OTHER, absent: ""}
    if headers["authorization"]:
        headers["authorization"] = f"Bearer {headers['authorization']}"

    assert "two different API keys" in why(Desk(), **{name.replace("-", "_"): value for name, value in headers.items()})


def test_nothing_that_is_kept_holds_a_secret() -> None:
    """A dump of its memory contains no secret."""
    desk = Desk()
    desk.asks()
    marked(desk, authorization=BEARER)

    kept = {name: getattr(desk.access, name) for name in dir(desk.access)}  # compiled, it has no __dict__
    assert SECRET not in repr(kept)
    assert (1, 1) == (len(desk.access._digests), len(desk.access._marked))


def test_strangers_fill_no_memory() -> None:
    desk = Desk()
    for n in range(50):
        why(desk, secret=f"wg-x-{n}")

    assert {} == desk.access._digests


def test_its_memory_is_bounded() -> None:
    secrets = [f"s{n}" for n in range(MOST_REMEMBERED + 10)]
    keys = {secret: Key(secret, "blue", DIGESTER.digest(secret)) for secret in secrets}
    desk = Desk()
    desk.directory.apply(Snapshot(2, {"blue": Team("blue")}, keys))

    assert secrets == [desk.asks(secret=secret) for secret in secrets]
    assert all(marked(desk, authorization=b"Bearer " + secret.encode()) for secret in secrets)
    assert MOST_REMEMBERED >= len(desk.access._digests)
    assert MOST_REMEMBERED >= len(desk.access._marked)


class FixedTokens:
    """Tokens that are known or can be verified without an issuer. Implements `TokenCallers`."""

    def __init__(self, directory: Directory) -> None:
        self.callers = {TOKEN: Caller(BLUE, Key("oidc:okta", "blue", ""), end_user="alice")}
        self.verified: list[str] = []
        self.is_known = False

    def expires_at(self, token: str) -> float:
        return 1300.0 if token in self.callers else 0.0

    def caller_of(self, token: str) -> Caller | None:
        return self.callers.get(token) if self.is_known else None

    async def verify(self, token: str) -> Caller:
        self.verified.append(token)
        if token not in self.callers:
            raise InvalidKey("The signature of the token is not valid")
        self.is_known = True
        return self.callers[token]


TOKEN, FORGED = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2ln", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.ZXZpbA"


@dataclass
class TokenDesk:
    """Access with tokens, and with a store that must not be asked because of a token."""

    now: float = 1000.0
    reads: int = 0

    def __post_init__(self) -> None:
        self.directory = Directory()
        self.directory.apply(Snapshot(1, {"blue": BLUE}, {"ci": CI}))
        self.tokens = FixedTokens(self.directory)
        self.access = Access(
            self.directory, DIGESTER, wall_clock=lambda: self.now, catch_up=self._catch_up, tokens=self.tokens
        )

    async def _catch_up(self) -> None:
        self.reads += 1

    async def asks(self, secret: str, name: str = "authorization") -> Caller | None:
        said = f"Bearer {secret}" if name == "authorization" else secret
        return await self.access.sure_caller(header_of({name: said}), "192.0.2.1")


async def test_a_token_is_verified_once_and_its_caller_found_afterwards() -> None:
    desk = TokenDesk()
    first, second = await desk.asks(TOKEN), await desk.asks(TOKEN, "x-api-key")

    assert first is second is desk.tokens.callers[TOKEN]
    assert [TOKEN] == desk.tokens.verified
    assert 0 == desk.reads


async def test_a_forged_token_is_refused_without_asking_the_store() -> None:
    desk = TokenDesk()
    with pytest.raises(InvalidKey, match="The signature of the token is not valid"):
        await desk.asks(FORGED)

    assert 0 == desk.reads


async def test_an_api_key_is_no_token() -> None:
    desk = TokenDesk()
    caller = await desk.asks(SECRET)
    assert caller is not None
    assert "ci" == caller.key_id
    for other in ("wg-x.y.z", "eyJhbGciOiJFUzI1NiJ9.eyJ9", "eyJ.a.b.c"):
        with pytest.raises(InvalidKey, match=UNKNOWN):
            await desk.asks(other)

    assert [] == desk.tokens.verified


async def test_a_marked_token_is_known_until_it_expires_or_a_team_changes() -> None:
    desk, fields = TokenDesk(), {b"authorization": f"Bearer {TOKEN}".encode()}
    caller = await desk.asks(TOKEN)
    assert caller is not None
    assert desk.access.known(fields) is None
    desk.access.mark(fields, caller)

    assert desk.access.known(fields) is caller
    assert desk.access.known({b"authorization": f"Bearer {FORGED}".encode()}) is None
    desk.now = 1300.0
    assert desk.access.known(fields) is None
    desk.now = 1299.9
    assert desk.access.known(fields) is caller
    desk.directory.apply(Snapshot(2, {"blue": structs.replace(BLUE, blocked=True)}, {"ci": CI}))
    assert desk.access.known(fields) is None


async def test_marked_tokens_are_bounded() -> None:
    desk = TokenDesk()
    caller = await desk.asks(TOKEN)
    assert caller is not None
    for number in range(MOST_REMEMBERED + 1):
        desk.access.mark({b"authorization": f"Bearer {TOKEN}{number}".encode()}, caller)

    assert 1 == len(desk.access._marked)


def test_a_caller_whose_limit_template_is_missing_is_refused() -> None:
    """Its limits are not known, so it could use any amount."""
    for desk in (
        Desk(team=structs.replace(BLUE, limit_template="gold")),
        Desk(structs.replace(CI, limit_template="gold")),
    ):
        with pytest.raises(Forbidden) as refused:
            desk.asks()

        assert "limit_template_missing" == refused.value.code
        assert ("blue", "ci") == refused.value.whose
        text = "The limit template 'gold' of the team 'blue' or of its API key is missing in the settings"
        assert text == refused.value.message


def test_a_caller_is_admitted_as_soon_as_its_limit_template_exists() -> None:
    desk = Desk(team=structs.replace(BLUE, limit_template="gold"))
    desk.directory.declare(Declared(rules=NamedRules({"gold": Limits(concurrent=7)})))
    assert "ci" == desk.asks()
    caller = desk.access.caller(header_of({"authorization": f"Bearer {SECRET}"}), "192.0.2.1")

    assert caller is not None
    assert 7 == caller.team.limits.concurrent
