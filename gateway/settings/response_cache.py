"""Settings for the cache of complete answers, which models use by `response_cache`."""

from typing import Annotated

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Count, Positive


class ResponseCacheSettings(Group):
    max_bytes: Count = Field(
        default=256 * 2**20, description="maximum memory in bytes of all answers that a gateway keeps"
    )
    max_answer_bytes: Count = Field(default=2**20, description="maximum size in bytes of an answer to keep")
    expire_s: Positive = Field(default=3600, description="seconds after which a kept answer is not sent any more")
    charge_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0,
        description="share of its usage for which a kept answer is charged: 0 (free) to 1 (as much as the first "
        "answer). It always counts as a request.",
    )
