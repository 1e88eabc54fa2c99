"""Who may use the gateway, by what a request brings.

1. Why a key is refused is told only to whoever has its secret; to all others a key is known or it is not.
2. While the store is away, known keys go on, and an unknown one may be new: 503, not 401.
3. Where a request comes from is believed only of the connection itself and of trusted proxies.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from hashlib import blake2s

from gateway.errors import Forbidden, InvalidKey, StoreAway
from gateway.teams.caller import Caller
from gateway.teams.directory import Directory
from gateway.teams.networks import Networks, source_of
from gateway.teams.open_mode import OpenMode
from gateway.teams.secret import Digester, hashed, is_same

Header = Callable[[bytes], str | None]
"""The value of the header of a name in lower case; None: there is none, or an empty one."""

MOST_REMEMBERED = 4096
AGAIN_S = 1.0
"""After which it is worth asking again when the store is away."""


class Access:
    """Knows callers by their keys.

    With *is_open*, everybody on this machine may ask as long as there is no team: neither teams nor a store are set.
    """

    def __init__(
        self,
        directory: Directory,
        digester: Digester,
        *,
        wall_clock: Callable[[], float],
        trusted_proxies: Sequence[str] = (),
        is_open: bool = False,
        open_mode: OpenMode = OpenMode(),  # noqa: B008  # it has no state
        catch_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """*catch_up* hears the store once more (`Following.catch_up`); None: there is none."""
        self._directory = directory
        self._digester = digester
        self._wall_clock = wall_clock
        self._trusted_proxies = Networks(trusted_proxies)
        self._is_open = is_open
        self._open_mode = open_mode
        self._catch_up = catch_up
        # HMAC is the dearer half of a digest; no secret can be read from its SHA-256. Of keys that are known only, so
        # that nobody else can push them out.
        self._digests: dict[bytes, str] = {}
        # What came in `authorization`, as a digest under a key that nobody else has and that ends with the process: of
        # those who may ask as long as no team or key changes. Who guesses secrets learns nothing from how long it takes
        # to find none here, as nobody knows which digest a guess has.
        self._marked: dict[bytes, Caller] = {}
        # As salt and name of a use, for a key would be one block more to hash: half of the work.
        self._unmarked = blake2s(
            salt=secrets.token_bytes(blake2s.SALT_SIZE), person=secrets.token_bytes(blake2s.PERSON_SIZE)
        )
        self._generation = directory.generation

    @property
    def is_open(self) -> bool:
        """Whether nothing is asked of callers on this machine: until there is a team."""
        return self._is_open and not self._directory.teams

    def use(self, digester: Digester) -> None:
        """Know keys by *digester* from now on: the pepper has become known."""
        self._digester = digester
        self._digests.clear()
        self._marked.clear()

    def known(self, fields: dict[bytes, bytes]) -> Caller | None:
        """Who asks, where that is sure already; None: `caller` has to look. Some 0.4 us.

        *fields* are the first values of the request's headers, by their names in lower case. Sure is who was marked,
        and brings the same words.
        """
        if self._generation != self._directory.generation:
            self._generation = self._directory.generation
            self._marked.clear()
        said = fields.get(b"authorization")
        if said is None or not self._marked or b"x-api-key" in fields or b"api-key" in fields:
            return None
        return self._marked.get(self._mark(said))

    def mark(self, fields: dict[bytes, bytes], caller: Caller) -> None:
        """Remember that `caller` found *caller* by *fields*, if the present secret is all that it takes."""
        said = fields.get(b"authorization")
        if said is None or not caller.is_plain or self._generation != self._directory.generation:
            return
        secret = said[len(_BEARER) :].strip().decode("latin-1")
        if is_same(self._digester.digest(secret), caller.key.digest):
            if len(self._marked) >= MOST_REMEMBERED:
                self._marked.clear()
            self._marked[self._mark(said)] = caller

    def caller(
        self,
        header: Header,
        peer: str | None,
        forwarded_for: Header | None = None,
        *,
        fields: dict[bytes, bytes] | None = None,
        is_http_1_0: bool = False,
    ) -> Caller | None:
        """Who asks; None: somebody on this machine, of whom nothing is asked. Some 1.2 us.

        *peer* is the address at the other end of the connection; None: a unix socket. *forwarded_for* gives a header as
        *header* does, but all of its values, joined by commas: without it what proxies say is not heard, as anybody
        could have said the first value. *fields* is what `OpenMode.check` looks at: without it nobody on a network is
        served where there are no keys.

        Raises:
            InvalidKey: no key, one that is not known, or one that counts no more.
            Forbidden: ``source_not_allowed``: a key that may not be used from there; ``open_mode``: there are no keys.
            StoreAway: a key that is not known, while the store is away.
        """
        if self._is_open and not self._directory.teams:
            self._open_mode.check(fields or {}, peer, is_http_1_0=is_http_1_0)
            return None
        secret = _secret_in(header)
        if not secret.isascii():
            raise _unknown()  # as none is made or declared
        sha256 = hashed(secret)
        remembered = self._digests.get(sha256)
        digest = remembered or self._digester.digest_of(sha256)
        caller = self._directory.caller_of(digest)
        if caller is None:
            raise self._unknown()
        if remembered is None:
            self._remember(sha256, digest)
        if not (is_same(digest, caller.key.digest) and caller.is_plain):
            try:
                self._check(caller, digest)
                if caller.networks is not None:
                    self._check_source(caller, peer, forwarded_for)
            except (InvalidKey, Forbidden) as refusal:
                refusal.whose = (caller.team.name, caller.key.id)
                raise
        return caller

    async def sure_caller(
        self,
        header: Header,
        peer: str | None,
        forwarded_for: Header | None = None,
        *,
        fields: dict[bytes, bytes] | None = None,
        is_http_1_0: bool = False,
    ) -> Caller | None:
        """As `caller`, but nobody is refused for a key before the store was heard once more.

        So a key that was made, unblocked or given another secret by one gateway counts at every other at once. Known
        callers do not wait for it.
        """
        try:
            return self.caller(header, peer, forwarded_for, fields=fields, is_http_1_0=is_http_1_0)
        except InvalidKey:
            if self._catch_up is None:
                raise
        with suppress(StoreAway):  # then the directory is behind, and the same question has another answer
            await self._catch_up()
        return self.caller(header, peer, forwarded_for, fields=fields, is_http_1_0=is_http_1_0)

    def _check(self, caller: Caller, digest: str) -> None:
        """Of a key whose secret is right, or was."""
        key = caller.key
        now = self._wall_clock()
        if not is_same(digest, key.digest) and not any(is_same(digest, each.digest) for each in key.formers(now)):
            raise InvalidKey(f"The API key {key.id!r} has another secret now: this one counts no more")
        if key.expires_at is not None and now >= key.expires_at:
            raise InvalidKey(f"The API key {key.id!r} has expired")
        if key.blocked:
            raise InvalidKey(f"The API key {key.id!r} is blocked")
        if caller.team.blocked:
            raise InvalidKey(f"The team {caller.team.name!r} of the API key {key.id!r} is blocked")

    def _check_source(self, caller: Caller, peer: str | None, forwarded_for: Header | None) -> None:
        assert caller.networks is not None
        said = forwarded_for(b"x-forwarded-for") if forwarded_for is not None else None
        source = source_of(peer, said, self._trusted_proxies)
        if source is None or source not in caller.networks:
            where = "there" if source is None else str(source)
            text = f"The API key {caller.key.id!r} may not be used from {where}"
            raise Forbidden(text, code="source_not_allowed")

    def _unknown(self) -> InvalidKey | StoreAway:
        if self._directory.is_behind:
            text = "The API key is not known here, and the store of keys does not answer: it may be a new one"
            return StoreAway(text, retry_after_s=AGAIN_S)
        return _unknown()

    def _mark(self, said: bytes) -> bytes:
        mark = self._unmarked.copy()  # to begin anew would take as long as the rest
        mark.update(said)
        return mark.digest()

    def _remember(self, sha256: bytes, digest: str) -> None:
        if len(self._digests) >= MOST_REMEMBERED:
            self._digests.clear()
        self._digests[sha256] = digest


_BEARER = "Bearer "


def _secret_in(header: Header) -> str:
    """The one secret that a request brings, in whichever header.

    Raises:
        InvalidKey: there is none, or there are two.
    """
    found: str | None = None
    authorization = header(b"authorization")
    if authorization is not None:
        found = authorization[len(_BEARER) :].strip()
        if not found or authorization[: len(_BEARER)].lower() != _BEARER.lower():
            raise InvalidKey("The header authorization must hold the word Bearer, a space, and an API key")
    for name in (b"x-api-key", b"api-key"):
        other = header(name)
        if other is not None:
            other = other.strip()
            if found is not None and found != other:
                raise InvalidKey("The request brings two API keys that differ: send one only")
            found = other
    if not found:
        raise InvalidKey("No API key was given: send one as authorization: Bearer API_KEY")
    return found


def _unknown() -> InvalidKey:
    return InvalidKey("The API key is not known")
