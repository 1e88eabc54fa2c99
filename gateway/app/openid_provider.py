"""Login of people at an issuer of tokens over HTTP (OpenID Connect Core 1.0, with PKCE of RFC 7636)."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
import msgspec

from gateway.app.identity_rules import KeySource, LoginRules
from gateway.app.key_sets import DISCOVERY, MOST_BYTES, document_at, issuer_client
from gateway.console.identity_provider import LoginAttempt, LoginFailed, ProviderUnavailable, SignedIn
from gateway.protocol.errors import DECODE_ERRORS, Forbidden, InvalidKey, IssuerUnavailable
from gateway.protocol.worker_address import is_printable_ascii
from gateway.tenancy.identity.admin_person import AdminPerson
from gateway.tenancy.identity.admin_tokens import AdminTokens
from gateway.tenancy.identity.signing_keys import LEAST_GAP_S, KeysUnreadableError
from gateway.tenancy.identity.token_verifier import TokenVerifier, VerifiedClaims

TIMEOUT_S: Final = 10.0
"""Maximum seconds for the exchange of a code."""
MAX_HINT: Final = 4096
"""Maximum length of an ID token that a session keeps, and that the address of the logout contains."""
CALLBACK: Final = "/console/login/callback"
AFTER_LOGOUT: Final = "/console/login"


class ProviderDocument(msgspec.Struct, frozen=True):
    """Discovery document of a provider (OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(msgspec.Struct):
    id_token: str


class OpenIdProvider:
    """Implements `IdentityProvider` for the issuer at *source*.

    *verifier* verifies ID tokens, whose audience is the client of *rules*. *clock* returns monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        source: KeySource,
        rules: LoginRules,
        *,
        verifier: TokenVerifier,
        tokens: AdminTokens,
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self._source = source
        self._rules = rules
        self._verifier = verifier
        self._tokens = tokens
        self._clock = clock
        self._document: ProviderDocument | None = None
        self._read_at = 0.0
        self._fault: tuple[str, float] | None = None
        self._is_reading = asyncio.Lock()

    async def authorization_url(self, attempt: LoginAttempt) -> str:
        """Return the address at the provider to which the browser goes. Raises the errors of the protocol.

        The provider must have answered in the last seconds. Otherwise a person would be led to a dead address.
        """
        document = await self._found(max_age_s=LEAST_GAP_S)
        digest = hashlib.sha256(attempt.verifier.encode("ascii")).digest()
        query = {
            "client_id": self._rules.client_id,
            "response_type": "code",
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._rules.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return _with_query(document.authorization_endpoint, query)

    async def exchange(self, code: str, issuer: str | None, attempt: LoginAttempt) -> SignedIn:
        """Exchange *code* for the person who signed in. Raises the errors of the protocol."""
        document = await self._found()
        is_stated = issuer is not None or document.authorization_response_iss_parameter_supported
        if is_stated and issuer != document.issuer:
            raise LoginFailed("The answer came from another identity provider than the login.")
        id_token = await self._id_token(document, code, attempt.verifier)
        try:
            claims = await self._verifier.verify_claims(id_token)
            self._check(claims, attempt.nonce)
            person = self._tokens.person_of(claims)
        except InvalidKey as fault:
            raise LoginFailed(f"The ID token of the provider was not accepted. {fault.cause}.") from None
        except Forbidden as fault:
            raise LoginFailed(f"{fault.message}.") from None
        except IssuerUnavailable:
            raise ProviderUnavailable("its keys cannot be read") from None
        return SignedIn(self, person, id_token if len(id_token) <= MAX_HINT else None)

    async def logout_url(self, signed_in: SignedIn) -> str | None:
        """Return the address that ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0), if any."""
        endpoint = (await self._found()).end_session_endpoint
        if endpoint is None:
            return None
        query = {
            "client_id": self._rules.client_id,
            "post_logout_redirect_uri": self._rules.public_url + AFTER_LOGOUT,
        }
        if signed_in.id_token is not None:
            query["id_token_hint"] = signed_in.id_token
        return _with_query(endpoint, query)

    def still_holds(self, person: AdminPerson) -> bool:
        """Return whether *person* has neither been revoked nor changed by the provider."""
        return self._tokens.still_holds(person)

    @property
    def _redirect_uri(self) -> str:
        return self._rules.public_url + CALLBACK

    def _check(self, claims: VerifiedClaims, nonce: str) -> None:
        """Check that an ID token was issued for this login and for this client alone.

        Raises:
            InvalidKey: if it was not.
        """
        given, client = claims.values.get("nonce"), self._rules.client_id
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
            raise InvalidKey("The token belongs to another login")
        audience, party = claims.values.get("aud"), claims.values.get("azp")
        if (isinstance(audience, list) and set(audience) != {client} and party is None) or party not in (None, client):
            raise InvalidKey("The token was issued for another client")

    async def _found(self, max_age_s: float | None = None) -> ProviderDocument:
        """Return the discovery document, which is read again if it is missing, or was read *max_age_s* seconds ago.

        Without *max_age_s*, a known document stays in use, because its addresses rarely change.
        """
        async with self._is_reading:
            now = self._clock()
            if self._document is not None and (max_age_s is None or now - self._read_at < max_age_s):
                return self._document
            if self._fault is None or now - self._fault[1] >= LEAST_GAP_S:
                await self._read(now)
            if self._document is None or self._fault is not None:
                raise ProviderUnavailable("" if self._fault is None else self._fault[0])
            return self._document

    async def _read(self, now: float) -> None:
        try:
            async with await issuer_client(self._source, with_token=False) as client:
                text = await document_at(client, self._source.issuer.rstrip("/") + DISCOVERY)
            self._document, self._fault = _checked(text, self._source.issuer), None
            self._read_at = now
        except KeysUnreadableError as fault:
            self._fault = str(fault), now

    async def _id_token(self, document: ProviderDocument, code: str, verifier: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        headers, secret = {}, self._rules.client_secret
        if secret is None or "client_secret_basic" not in document.token_endpoint_auth_methods_supported:
            form["client_id"] = self._rules.client_id
            form |= {} if secret is None else {"client_secret": secret}
        else:
            pair = f"{quote(self._rules.client_id, safe='')}:{quote(secret, safe='')}"  # RFC 6749, section 2.3.1
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        status, body = await self._posted(document.token_endpoint, form, headers)
        if status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.TOO_MANY_REQUESTS:
            raise ProviderUnavailable(f"it answered with status {status}")
        if status != httpx.codes.OK:
            raise LoginFailed(f"The identity provider did not accept the code of the login (status {status}).")
        try:
            return msgspec.json.decode(body, type=_Tokens).id_token
        except DECODE_ERRORS:
            raise LoginFailed("The identity provider sent no ID token. The scope openid is required.") from None

    async def _posted(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        body = bytearray()
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                await issuer_client(self._source, with_token=False) as client,
                client.stream("POST", url, data=dict(form), headers=dict(headers)) as response,
            ):
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise ProviderUnavailable("its answer is too large")
                return response.status_code, bytes(body)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, KeysUnreadableError):
            raise ProviderUnavailable("it cannot be reached") from None


def _checked(text: bytes, issuer: str) -> ProviderDocument:
    """Return the discovery document in *text*.

    Raises:
        KeysUnreadableError: if the document is not that of *issuer*, or names an address that must not be used.
    """
    try:
        found = msgspec.json.decode(text, type=ProviderDocument)
    except DECODE_ERRORS:
        raise KeysUnreadableError("the discovery document does not describe a login") from None
    if found.issuer != issuer:
        raise KeysUnreadableError("the discovery document belongs to another issuer")
    schemes = ("https://",) if issuer.startswith("https://") else ("https://", "http://")
    for each in (found.authorization_endpoint, found.token_endpoint, found.end_session_endpoint):
        if each is not None and not (each.startswith(schemes) and is_printable_ascii(each)):
            raise KeysUnreadableError("the discovery document names an address without encryption")
    return found


def _with_query(url: str, query: Mapping[str, Any]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
