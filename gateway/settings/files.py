"""Settings for files, which teams upload for batches under ``/v1/files``."""

from typing import Annotated

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Count


class FilesSettings(Group):
    folder: str | None = Field(
        default=None,
        description="folder for the contents of files, which all gateways with the same store must see. Null means "
        "that /v1/files is not served. The properties of files are in the store, so store.url is required.",
        min_length=1,
    )
    max_file_bytes: Count = Field(default=200 * 10**6, description="maximum size in bytes of an uploaded file")
    max_lines: Count = Field(default=50_000, description="maximum number of lines of an uploaded file")
    max_team_bytes: Count = Field(
        default=20 * 10**9, description="maximum size in bytes of all files of a team, with the files of results"
    )
    max_team_files: Count = Field(default=10_000, description="maximum number of files of a team")
    keep_s: Annotated[int, Field(ge=3600, le=2_592_000)] = Field(
        default=2_592_000,
        description="seconds after which a file is deleted if its owner sets no other time",
    )
