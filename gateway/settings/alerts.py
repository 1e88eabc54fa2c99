"""Settings for alerts about budgets and unusual spend: thresholds, and the receivers of alerts."""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_names import Place
from gateway.protocol.field_types import EntityName, Group, Token, Url, rule
from gateway.protocol.worker_address import is_http_address, is_private_address
from gateway.settings.rules import Count, FileName, HostName, Positive, Secret, VariableName, unless_contradictory

PREFIX = "whsec_"
SECRET_BYTES = (24, 64)


def _check_webhook_secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    try:
        size = len(base64.b64decode(text.removeprefix(PREFIX), validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not text.startswith(PREFIX) or not SECRET_BYTES[0] <= size <= SECRET_BYTES[1]:
        text = f"the value must be {PREFIX} and {SECRET_BYTES[0]} to {SECRET_BYTES[1]} bytes in base64"
        raise rule(text, shows_value=False)
    return value


WebhookSecret = Annotated[SecretStr, AfterValidator(_check_webhook_secret)]
Threshold = Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]


class WebhookSettings(Group):
    """Receiver of alerts that verifies signatures."""

    name: EntityName = Field(description="name of the receiver in logs and metrics. A new name is a new receiver.")
    url: Url = Field(description="URL to which alerts are posted as JSON, signed as Standard Webhooks")
    secret: WebhookSecret | None = Field(
        default=None, description="secret of the signature: whsec_ and 24 to 64 random bytes in base64"
    )
    secret_env: VariableName | None = Field(
        default=None, description="environment variable that holds the secret of the signature"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.secret is None and self.secret_env is None:
            found.append(Contradiction(("secret",), "is required. Set secret or secret_env"))
        return unless_contradictory(self, found)


def _check_chat_url(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not is_http_address(text) or is_private_address(text):
        raise rule("the value must be the https:// address of an incoming webhook", shows_value=False)
    return value


def _check_mail_address(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}", value):
        raise rule("the value must be an e-mail address such as ops@example.com")
    return value


ChatUrl = Annotated[SecretStr, AfterValidator(_check_chat_url)]
MailAddress = Annotated[str, AfterValidator(_check_mail_address)]


class SlackSettings(Group):
    """Receiver of alerts that accepts Slack's incoming webhooks."""

    name: EntityName = Field(description="name of the receiver in logs and metrics. A new name is a new receiver.")
    secret: ChatUrl | None = Field(
        default=None, description="URL of the incoming webhook. Everyone who knows it can post, so it is a secret."
    )
    secret_env: VariableName | None = Field(
        default=None, description="environment variable that holds the URL of the incoming webhook"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.secret is None and self.secret_env is None:
            found.append(Contradiction(("secret",), "is required. Set secret or secret_env"))
        return unless_contradictory(self, found)


class EmailSettings(Group):
    """Receivers of alerts by e-mail."""

    name: EntityName = Field(description="name of the receiver in logs and metrics. A new name is a new receiver.")
    host: HostName = Field(description="host name of the SMTP server")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(default=587, description="port of the SMTP server")
    encryption: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="encryption of the connection: starttls, tls (usually on port 465) or none"
    )
    ca_file: FileName | None = Field(
        default=None,
        description="file with the certificates that sign the certificate of the SMTP server. Null means the usual "
        "certificate authorities.",
    )
    username: Token | None = Field(default=None, description="user name at the SMTP server. Null means no login.")
    secret: Secret | None = Field(default=None, description="password at the SMTP server")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the password")
    sender: MailAddress = Field(description="address of the sender")
    recipients: Annotated[tuple[MailAddress, ...], Field(strict=False, min_length=1, max_length=50)] = Field(
        description="addresses of the recipients, who get one e-mail together"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        has_secret = self.secret is not None or self.secret_env is not None
        if self.username is not None and not has_secret:
            found.append(Contradiction(("secret",), "is required for username. Set secret or secret_env"))
        if has_secret and self.username is None:
            found.append(Contradiction(("username",), "is required for a password"))
        if self.username is not None and self.encryption == "none":
            text = "must be starttls or tls, because the password would be readable in the network"
            found.append(Contradiction(("encryption",), text))
        return unless_contradictory(self, found)


class AnomalySettings(Group):
    factor: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = Field(
        default=5,
        description="multiple of its usual cost per day at which a team's cost of today causes an alert, once per "
        "day. The usual cost is the mean of earlier days. Null means no such alerts.",
    )
    min_usd: Positive = Field(
        default=10, description="cost of a day in US dollars below which a team causes no such alert"
    )
    min_days: Count = Field(
        default=3, description="days since a team's first request before which the team causes no such alert"
    )
    history_days: Annotated[int, Field(ge=1, le=60)] = Field(
        default=14, description="maximum number of earlier days whose mean is the usual cost"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.min_days > self.history_days:
            found.append(Contradiction(("min_days",), "must not be greater than", ("history_days",)))
        return unless_contradictory(self, found)


class AlertsSettings(Group):
    thresholds: Annotated[tuple[Threshold, ...], Field(strict=False, max_length=20)] = Field(
        default=(0.5, 0.8, 1.0), description="shares of a budget at which an alert is sent, once per period"
    )
    check_s: Positive = Field(default=10, description="seconds between two comparisons of budgets with thresholds")
    anomaly: AnomalySettings = Field(
        default=AnomalySettings(), description="alerts about teams whose cost of a day is unusual"
    )
    webhooks: Annotated[tuple[WebhookSettings, ...], Field(strict=False, max_length=20)] = Field(
        default=(), description="receivers of alerts over HTTP. Without receivers, alerts are disabled."
    )
    slack: Annotated[tuple[SlackSettings, ...], Field(strict=False, max_length=20)] = Field(
        default=(), description="receivers of alerts as messages of Slack's incoming webhooks"
    )
    email: Annotated[tuple[EmailSettings, ...], Field(strict=False, max_length=20)] = Field(
        default=(), description="receivers of alerts by e-mail"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        lists: dict[str, Sequence[WebhookSettings | SlackSettings | EmailSettings]]
        lists = {"webhooks": self.webhooks, "slack": self.slack, "email": self.email}
        names: list[tuple[Place, str]] = [
            ((name, i, "name"), each.name) for name, receivers in lists.items() for i, each in enumerate(receivers)
        ]
        return unless_contradictory(self, repeated(names))
