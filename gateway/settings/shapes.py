"""Settings for recorded request shapes, from which a replay shows what other settings would have done."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Count, Positive


class RequestShapesSettings(Group):
    enabled: bool = Field(
        default=False,
        description="whether the times, sizes and shared prefixes of requests are recorded, without text, for replays "
        "by the admin API (/admin/v1/what-if)",
    )
    directory: str | None = Field(
        default=None,
        description="folder for the recorded request shapes. Null means a temporary folder that is deleted when the "
        "gateway stops.",
        min_length=1,
    )
    max_bytes: Count = Field(
        default=64 * 2**20, description="maximum size in bytes of all files with recorded request shapes"
    )
    keep_s: Positive = Field(default=3600, description="seconds for which recorded request shapes are kept")
