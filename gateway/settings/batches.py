"""Settings for batches under ``/v1/batches``, which need files (`gateway.settings.files`)."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import repeated
from gateway.protocol.field_types import EntityName, Group, Url
from gateway.settings.alerts import WebhookSettings
from gateway.settings.rules import Count, Positive, unless_contradictory


class BatchWebhookSettings(WebhookSettings):
    """Receiver of events about batches."""

    url: Url = Field(
        description="URL to which events of batches are posted as JSON, in the form of OpenAI's webhooks, signed as "
        "Standard Webhooks"
    )
    teams: Annotated[tuple[EntityName, ...], Field(strict=False, max_length=1000)] | None = Field(
        default=None, description="teams whose batches cause events. Null means all teams."
    )


class BatchesSettings(Group):
    max_in_flight_per_worker: Count = Field(
        default=32,
        description="maximum number of lines of batches that a gateway has in flight, per ready worker of a model. A "
        "line starts only on a worker that computes no other prompt, and while no request waits for a worker of the "
        "model.",
    )
    max_cache_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.5,
        description="maximum share of the cache of a worker that the lines of batches in flight on the worker occupy. "
        "One line is always allowed.",
    )
    raise_before_s: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=7200,
        description="seconds before the end of a batch from which on its lines have the priority low, no longer wait "
        "for idle workers, and can be answered by fallbacks if the key may use fallbacks",
    )
    max_team_batches: Count = Field(
        default=1000, description="maximum number of batches of a team, with those that have ended"
    )
    lease_s: Positive = Field(
        default=30,
        description="seconds without contact after which a gateway counts as dead and other gateways run its lines of "
        "batches",
    )
    max_enqueued_tokens: Count | None = Field(
        default=None,
        description="maximum number of prompt tokens, as an estimate, of all batches of a team for one model that have "
        "not ended. A batch above it fails with token_limit_exceeded. Null means no limit.",
    )
    model_enqueued_tokens: dict[str, Count] = Field(
        default={}, description="max_enqueued_tokens for individual models, by the model's name"
    )
    interrupt_prompts: bool = Field(
        default=True,
        description="whether the gateway interrupts a line whose prompt a worker computes if another request needs the "
        "worker, and continues the line later. Set false for engines without prefix caching, which lose the work.",
    )
    model_interrupt_prompts: dict[str, bool] = Field(
        default={}, description="interrupt_prompts for individual models, by the model's name"
    )
    webhooks: Annotated[tuple[BatchWebhookSettings, ...], Field(strict=False, max_length=20)] = Field(
        default=(),
        description="receivers of the events batch.completed, batch.failed, batch.expired and batch.cancelled over "
        "HTTP",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        names = [(("webhooks", i, "name"), each.name) for i, each in enumerate(self.webhooks)]
        return unless_contradictory(self, repeated(names))
