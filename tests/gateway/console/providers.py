"""An identity provider for tests of the console, which accepts the code that a test sets."""

from dataclasses import dataclass, field

from gateway.console.identity_provider import LoginAttempt, LoginFailed, ProviderUnavailable, SignedIn
from gateway.tenancy.identity.admin_person import AdminPerson
from gateway.tenancy.identity.role_rule import RoleGrant

ALICE = AdminPerson("okta", "alice", RoleGrant("owner"), 0.0, 0.0)


@dataclass
class Provider:
    name: str = "okta"
    person: AdminPerson = ALICE
    code: str = "code"
    is_down: bool = False
    is_revoked: bool = False
    logout: str | None = "https://login.example.com/end?id_token_hint=x&a=b"
    attempts: list[LoginAttempt] = field(default_factory=list)
    exchanged: list[tuple[str, str | None]] = field(default_factory=list)

    async def authorization_url(self, attempt: LoginAttempt) -> str:
        self._check()
        self.attempts.append(attempt)
        return f"https://login.example.com/auth?state={attempt.state}"

    async def exchange(self, code: str, issuer: str | None, attempt: LoginAttempt) -> SignedIn:
        self._check()
        self.exchanged.append((code, issuer))
        if code != self.code or attempt not in self.attempts:
            raise LoginFailed("The identity provider did not accept the code of the login (status 400).")
        self.code = ""
        return SignedIn(self, self.person, "id-token")

    async def logout_url(self, signed_in: SignedIn) -> str | None:
        self._check()
        return self.logout

    def still_holds(self, person: AdminPerson) -> bool:
        return not self.is_revoked

    def _check(self) -> None:
        if self.is_down:
            raise ProviderUnavailable("it cannot be reached")
