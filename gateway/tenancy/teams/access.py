"""Identification of callers by the API keys in request headers.

1. Only a client that has the secret learns why its key is refused. For all other clients, a key is either known or
   unknown.
2. While the store is unavailable, known keys stay valid. An unknown key gets status 503 and not 401, because it may be
   new.
3. The source address of a request is the address of its connection, unless a trusted proxy names another address.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from math import inf

from gateway.protocol.errors import Forbidden, InvalidKey, StoreUnavailable
from gateway.protocol.headers import HeaderLookup
from gateway.protocol.networks import Networks, source_of
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.open_mode import OpenMode
from gateway.tenancy.teams.secret import Digester, hashed, is_same
from gateway.tenancy.teams.token_callers import TokenCallers, is_token

MOST_REMEMBERED = 4096
AGAIN_S = 1.0
"""Seconds to wait before the next attempt while the store is unavailable."""


class Marked:
    """Caller of an API key, or of a token until it expires."""

    __slots__ = ("caller", "expires_at")

    def __init__(self, caller: Caller, expires_at: float) -> None:
        self.caller = caller
        self.expires_at = expires_at
        """Time of expiry in seconds since 1970, which is infinite for an API key."""


class Access:
    """Identification of callers by their API keys, or by tokens of identity providers.

    If *is_open* is true, callers on this machine need no key until a team exists. This is the case if the settings name
    neither teams nor a store.
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
        tokens: TokenCallers | None = None,
    ) -> None:
        """Create the object. *catch_up* reads the store again (`Following.catch_up`), or is None without a store.
        *tokens* is None if only API keys are accepted.
        """
        self._directory = directory
        self._digester = digester
        self._wall_clock = wall_clock
        self._trusted_proxies = Networks(trusted_proxies)
        self._is_open = is_open
        self._open_mode = open_mode
        self._catch_up = catch_up
        self._tokens = tokens
        # HMAC is the expensive half of a digest, and its input, the SHA-256, reveals no secret. Only known keys are
        # cached, so that strangers cannot evict them.
        self._digests: dict[bytes, str] = {}
        # Values of `authorization` of callers who may ask until a team or key changes, as digests under a random key
        # of this process. The time of a lookup reveals nothing, because the digest of a guess cannot be predicted.
        self._marked: dict[bytes, Marked] = {}
        self._lent: dict[bytes, Caller] = {}
        """Callers by the SHA-256 of secrets that the gateway itself made, for requests that it sends to itself."""
        # Passed as salt and person: as a key it would be one more block to hash, half of the work.
        self._unmarked = blake2b(
            salt=secrets.token_bytes(blake2b.SALT_SIZE), person=secrets.token_bytes(blake2b.PERSON_SIZE)
        )
        self._generation = directory.generation

    @property
    def is_open(self) -> bool:
        """Whether local callers need no key, because no team exists."""
        return self._is_open and not self._directory.teams

    def use(self, digester: Digester) -> None:
        """Use *digester* from now on, because the pepper (secret salt) has become known."""
        self._digester = digester
        self._digests.clear()
        self._marked.clear()

    def lend(self, secret: str, caller: Caller) -> None:
        """Let the gateway itself send requests as *caller* with *secret*, which it made and keeps to itself, until
        `take_back`. The gateway has checked that the key of *caller* is valid.
        """
        self._lent[hashed(secret)] = caller

    def take_back(self, secret: str) -> None:
        """Refuse *secret* from now on."""
        self._lent.pop(hashed(secret), None)

    def known(self, fields: dict[bytes, bytes]) -> Caller | None:
        """Return the caller if `mark` has remembered the same headers, or None if `caller` must decide. Takes about 0.4
        us.

        *fields* maps header names in lower case to the first value of each header.
        """
        if self._generation != self._directory.generation:
            self._generation = self._directory.generation
            self._marked.clear()
        said = fields.get(b"authorization")
        if said is None or not self._marked or b"x-api-key" in fields or b"api-key" in fields:
            return None
        marked = self._marked.get(self._mark(said))
        if marked is None or (marked.expires_at != inf and self._wall_clock() >= marked.expires_at):
            return None
        return marked.caller

    def mark(self, fields: dict[bytes, bytes], caller: Caller) -> None:
        """Remember that the headers *fields* belong to *caller*, if *caller* needs nothing but the current secret."""
        said = fields.get(b"authorization")
        if said is None or not caller.is_plain or self._generation != self._directory.generation:
            return
        secret = said[len(_BEARER) :].strip().decode("latin-1")
        if self._tokens is not None and not caller.key.digest:
            expires_at = self._tokens.expires_at(secret)
        elif is_same(self._digester.digest(secret), caller.key.digest):
            expires_at = inf
        else:
            return
        if len(self._marked) >= MOST_REMEMBERED:
            self._marked.clear()
        self._marked[self._mark(said)] = Marked(caller, expires_at)

    def caller(
        self,
        header: HeaderLookup,
        peer: str | None,
        forwarded_for: HeaderLookup | None = None,
        *,
        fields: dict[bytes, bytes] | None = None,
        is_http_1_0: bool = False,
    ) -> Caller | None:
        """Return the caller of a request, or None for a program on this machine that needs no key. Takes about 1.2 us.

        *peer* is the address at the other end of the connection, or None for a Unix socket. *header* returns the first
        value of a header. *forwarded_for* returns all values, joined by commas. Without *forwarded_for*, proxy headers
        are ignored, because a client could have sent the first value. *fields* is required by `OpenMode.check`. Without
        *fields*, network callers are refused while there are no keys.

        Raises:
            InvalidKey: if the key is missing, unknown or no longer valid.
            Forbidden: ``source_not_allowed`` if the key may not be used from the source address, ``open_mode`` if
                there are no keys and the request is not allowed without one, or under the condition of
                `Caller.check_limits`.
            StoreUnavailable: if the key is unknown while the store is unavailable.
        """
        if self._is_open and not self._directory.teams:
            self._open_mode.check(fields or {}, peer, is_http_1_0=is_http_1_0)
            return None
        secret = _secret_in(header)
        if not secret.isascii():
            raise _unknown()  # all keys are ASCII
        sha256 = hashed(secret)
        remembered = self._digests.get(sha256)
        digest = remembered or self._digester.digest_of(sha256)
        caller = self._directory.caller_of(digest)
        if caller is None:
            if self._tokens is not None and is_token(secret):
                return _verified(self._tokens, secret)
            lent = self._lent.get(sha256)
            if lent is not None:
                return lent
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
        header: HeaderLookup,
        peer: str | None,
        forwarded_for: HeaderLookup | None = None,
        *,
        fields: dict[bytes, bytes] | None = None,
        is_http_1_0: bool = False,
    ) -> Caller | None:
        """Return the caller in the same way as `caller`, but read the store again before refusing a key.

        A key that another gateway has created, unblocked or rotated is therefore valid at once. Known callers do not
        wait. A token that is not verified yet is verified.

        Raises:
            The errors of `caller`, and those of `TokenCallers.verify`.
        """
        try:
            return self.caller(header, peer, forwarded_for, fields=fields, is_http_1_0=is_http_1_0)
        except InvalidKey:
            token = None if self._tokens is None else _token_in(header)
            if token is None and self._catch_up is None:
                raise
        if self._tokens is not None and token is not None:
            return await self._tokens.verify(token)
        assert self._catch_up is not None
        with suppress(StoreUnavailable):  # then the directory is behind, and the same question has another answer
            await self._catch_up()
        return self.caller(header, peer, forwarded_for, fields=fields, is_http_1_0=is_http_1_0)

    def check_key(self, caller: Caller) -> None:
        """Raise an error unless the key of *caller* is still valid.

        Raises:
            InvalidKey: if the key has expired, or is blocked, or its team is blocked.
            Forbidden: under the condition of `Caller.check_limits`.
        """
        self._check_state(caller, self._wall_clock())

    def _check(self, caller: Caller, digest: str) -> None:
        """Raise an error unless the caller is allowed to use the key, identified by a current or former secret."""
        key = caller.key
        now = self._wall_clock()
        if not is_same(digest, key.digest) and not any(is_same(digest, each.digest) for each in key.formers(now)):
            raise InvalidKey(f"The API key {key.id!r} has a new secret, and the old secret is no longer valid")
        self._check_state(caller, now)

    def _check_state(self, caller: Caller, now: float) -> None:
        key = caller.key
        if key.expires_at is not None and now >= key.expires_at:
            raise InvalidKey(f"The API key {key.id!r} has expired")
        if key.blocked:
            raise InvalidKey(f"The API key {key.id!r} is blocked")
        if caller.team.blocked:
            raise InvalidKey(f"The team {caller.team.name!r} of the API key {key.id!r} is blocked")
        caller.check_limits()

    def _check_source(self, caller: Caller, peer: str | None, forwarded_for: HeaderLookup | None) -> None:
        assert caller.networks is not None
        said = forwarded_for(b"x-forwarded-for") if forwarded_for is not None else None
        source = source_of(peer, said, self._trusted_proxies)
        if source is None or source not in caller.networks:
            where = "there" if source is None else str(source)
            text = f"The API key {caller.key.id!r} may not be used from {where}"
            raise Forbidden(text, code="source_not_allowed")

    def _unknown(self) -> InvalidKey | StoreUnavailable:
        if self._directory.is_behind:
            text = "The API key is not known, and the key store does not answer. The key might be new"
            return StoreUnavailable(text, retry_after_s=AGAIN_S)
        return _unknown()

    def _mark(self, said: bytes) -> bytes:
        mark = self._unmarked.copy()  # a new one would take as long as the rest
        mark.update(said)
        return mark.digest()

    def _remember(self, sha256: bytes, digest: str) -> None:
        if len(self._digests) >= MOST_REMEMBERED:
            self._digests.clear()
        self._digests[sha256] = digest


_BEARER = "Bearer "


def _secret_in(header: HeaderLookup) -> str:
    """Return the single secret in the headers of the request.

    Raises:
        InvalidKey: if the request has no secret, or two different ones.
    """
    found: str | None = None
    authorization = header(b"authorization")
    if authorization is not None:
        found = authorization[len(_BEARER) :].strip()
        if not found or authorization[: len(_BEARER)].lower() != _BEARER.lower():
            raise InvalidKey("The header 'authorization' must be the word Bearer, a space and an API key")
    for name in (b"x-api-key", b"api-key"):
        other = header(name)
        if other is not None:
            other = other.strip()
            if found is not None and found != other:
                raise InvalidKey("The request has two different API keys: send only one")
            found = other
    if not found:
        raise InvalidKey("No API key was given: send one as authorization: Bearer API_KEY")
    return found


def _token_in(header: HeaderLookup) -> str | None:
    """Return the token in the headers of the request, or None if they contain an API key.

    Raises:
        InvalidKey: if the request has no secret, or two different ones.
    """
    secret = _secret_in(header)
    return secret if is_token(secret) else None


def _verified(tokens: TokenCallers, token: str) -> Caller:
    caller = tokens.caller_of(token)
    if caller is None:
        raise InvalidKey("The token has not been verified")
    return caller


def _unknown() -> InvalidKey:
    return InvalidKey("The API key is not known")
