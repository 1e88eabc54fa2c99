"""Login without a browser on this machine: the device authorization grant (RFC 8628), refreshing and revocation."""

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.cli.commands.output import CommandFailed
from gateway.cli.commands.stored_logins import StoredLogin
from gateway.protocol.errors import DECODE_ERRORS

if TYPE_CHECKING:
    import httpx

DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
MIN_INTERVAL_S: Final = 1.0
MAX_INTERVAL_S: Final = 60.0
SLOWER_S: Final = 5.0
"""Seconds that the answer slow_down adds to the interval, according to RFC 8628, section 3.5."""
MAX_WAIT_S: Final = 1800.0
USUAL_LIFETIME_S: Final = 300.0
"""Assumed lifetime of an access token whose lifetime the provider does not state."""
_LOCAL: Final = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/.*)?")
_ERROR: Final = re.compile(r"[a-z_]{1,60}")


class ProviderAddresses(msgspec.Struct, frozen=True):
    """Addresses in the discovery document of a provider."""

    issuer: str
    token_endpoint: str
    device_authorization_endpoint: str | None = None
    revocation_endpoint: str | None = None


class DeviceCode(msgspec.Struct, frozen=True):
    """Codes of one login: one for the device, and one that the person confirms in a browser."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = 600.0
    interval: float = 5.0


class _Tokens(msgspec.Struct):
    access_token: str
    expires_in: float | None = None
    refresh_token: str | None = None


class _Fault(msgspec.Struct):
    error: str = ""


class LoginEnded(CommandFailed):
    """Raised if the provider no longer accepts a login, so that the person must log in again."""


class DeviceLogin:
    """Client of the issuer. *clock* returns seconds since 1970, and *sleep* waits for seconds."""

    def __init__(
        self,
        http: "httpx.AsyncClient",
        issuer: str,
        client_id: str,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._http = http
        self._issuer = issuer
        self._client_id = client_id
        self._clock = clock
        self._sleep = sleep

    async def addresses(self) -> ProviderAddresses:
        """Return the addresses of the provider.

        Raises:
            CommandFailed: if the provider cannot be reached, or its document is not that of the issuer.
        """
        url = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
        status, body = await self._sent("GET", url, None)
        if status != HTTPStatus.OK:
            raise CommandFailed(f"The provider answered {url} with status {status}.")
        try:
            found = msgspec.json.decode(body, type=ProviderAddresses)
        except DECODE_ERRORS:
            raise CommandFailed(f"{url} is not the document of an OpenID Connect provider.") from None
        if found.issuer != self._issuer:
            raise CommandFailed(f"{url} belongs to another issuer. Use the exact address of the issuer.")
        for each in (found.token_endpoint, found.device_authorization_endpoint, found.revocation_endpoint):
            if each is not None and not is_encrypted(each):
                raise CommandFailed(f"{url} names an address without encryption.")
        return found

    async def begin(self, addresses: ProviderAddresses, scope: str, resource: str | None) -> DeviceCode:
        """Return the codes of a new login.

        Raises:
            CommandFailed: if the provider does not offer or refuses the login.
        """
        if addresses.device_authorization_endpoint is None:
            raise CommandFailed("The provider does not offer the device authorization grant.")
        form = {"client_id": self._client_id, "scope": scope}
        status, body = await self._sent("POST", addresses.device_authorization_endpoint, _with(form, resource))
        if status != HTTPStatus.OK:
            raise CommandFailed(f"The provider refused the login: {_error_in(body, status)}.")
        try:
            code = msgspec.json.decode(body, type=DeviceCode)
        except DECODE_ERRORS:
            raise CommandFailed("The provider answered with something other than a device code.") from None
        shown = (code.user_code, code.verification_uri, code.verification_uri_complete or "")
        if not all(each.isprintable() for each in shown) or not is_encrypted(code.verification_uri):
            raise CommandFailed("The provider named an address that cannot be shown.")
        return code

    async def wait(self, addresses: ProviderAddresses, code: DeviceCode, login: StoredLogin) -> StoredLogin:
        """Wait until the person has confirmed *code*, and return *login* with the tokens.

        Raises:
            CommandFailed: if the person refuses, or does not confirm in time.
        """
        ends, interval_s = self._clock() + min(code.expires_in, MAX_WAIT_S), code.interval
        form = {"grant_type": DEVICE_GRANT, "device_code": code.device_code, "client_id": self._client_id}
        while self._clock() < ends:
            await self._sleep(min(max(interval_s, MIN_INTERVAL_S), MAX_INTERVAL_S))
            status, body = await self._sent("POST", addresses.token_endpoint, form)
            if status == HTTPStatus.OK:
                return self._with_tokens(login, body)
            error = _error_in(body, status)
            if error == "slow_down":
                interval_s += SLOWER_S
            elif error != "authorization_pending":
                raise CommandFailed(f"The login was not completed: {error}.")
        raise CommandFailed("The login was not confirmed in time. Run warmgate login again.")

    async def refreshed(self, login: StoredLogin) -> StoredLogin:
        """Return *login* with a new access token.

        Raises:
            LoginEnded: if the provider no longer accepts the refresh token.
            CommandFailed: if the provider cannot be reached.
        """
        if login.refresh_token is None:
            raise LoginEnded("The login has expired. Run warmgate login again.", code=2)
        addresses = await self.addresses()
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": self._client_id}
        status, body = await self._sent("POST", addresses.token_endpoint, _with(form, login.resource))
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise CommandFailed(f"The provider answered with status {status}. Try again later.")
        if status != HTTPStatus.OK:
            raise LoginEnded(f"The login has ended: {_error_in(body, status)}. Run warmgate login again.", code=2)
        return self._with_tokens(login, body)

    async def revoke(self, login: StoredLogin) -> bool:
        """Revoke the tokens of *login* at the provider (RFC 7009), and return whether the provider offers that.

        Raises:
            CommandFailed: if the provider cannot be reached or refuses.
        """
        endpoint = (await self.addresses()).revocation_endpoint
        if endpoint is None:
            return False
        token = login.refresh_token or login.access_token
        hint = "refresh_token" if login.refresh_token is not None else "access_token"
        form = {"token": token, "token_type_hint": hint, "client_id": self._client_id}
        status, body = await self._sent("POST", endpoint, form)
        if status != HTTPStatus.OK:
            raise CommandFailed(f"The provider did not revoke the login: {_error_in(body, status)}.")
        return True

    def _with_tokens(self, login: StoredLogin, body: bytes) -> StoredLogin:
        try:
            tokens = msgspec.json.decode(body, type=_Tokens)
        except DECODE_ERRORS:
            raise CommandFailed("The provider answered with something other than tokens.") from None
        if not (tokens.access_token.isascii() and tokens.access_token.count(".") == 2):
            text = "The provider issued an access token that is not a JSON Web Token."
            raise CommandFailed(f"{text} Name the gateway's audience with --resource or --scope.")
        lifetime_s = USUAL_LIFETIME_S if tokens.expires_in is None else tokens.expires_in
        return msgspec.structs.replace(
            login,
            access_token=tokens.access_token,
            expires_at=self._clock() + lifetime_s,
            refresh_token=tokens.refresh_token or login.refresh_token,
        )

    async def _sent(self, method: str, url: str, form: Mapping[str, str] | None) -> tuple[int, bytes]:
        import httpx  # noqa: PLC0415  # most commands have no use for it

        try:
            answer = await self._http.request(method, url, data=None if form is None else dict(form))
        except (httpx.HTTPError, httpx.InvalidURL) as fault:
            raise CommandFailed(f"The provider cannot be reached: {type(fault).__name__}.") from None
        return answer.status_code, answer.content


def is_encrypted(url: str) -> bool:
    """Return whether requests to *url* are encrypted or stay on this machine."""
    return url.startswith("https://") or _LOCAL.fullmatch(url) is not None


def _with(form: Mapping[str, str], resource: str | None) -> dict[str, Any]:
    return dict(form) if resource is None else {**form, "resource": resource}


def _error_in(body: bytes, status: int) -> str:
    try:
        error = msgspec.json.decode(body, type=_Fault).error
    except DECODE_ERRORS:
        error = ""
    return error if _ERROR.fullmatch(error) else f"status {status}"
