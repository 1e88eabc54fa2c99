"""Settings for files, which teams upload for batches under ``/v1/files``."""

from typing import Annotated, Literal

from pydantic import Field

from gateway.protocol.field_types import Group, Url
from gateway.settings.rules import Count


class BucketSettings(Group):
    bucket: str = Field(
        description="name of the bucket, which must exist. The gateway finds its credentials as AWS's tools do: in the "
        "environment, the profile, or the role of the pod or of the machine.",
        pattern=r"^[A-Za-z0-9._-]{3,255}$",
    )
    prefix: str = Field(default="", description="beginning of the names of all objects, e.g. warmgate/", max_length=512)
    region: str | None = Field(
        default=None,
        description="AWS region of the bucket. Null means the region in AWS_DEFAULT_REGION or in the profile.",
        min_length=1,
    )
    endpoint_url: Url | None = Field(
        default=None, description="URL of a service other than Amazon S3 with the same API. Null means Amazon S3."
    )
    addressing: Literal["auto", "path", "virtual"] = Field(
        default="auto",
        description="place of the bucket's name: in the path, or in the host name (virtual). auto means the path if "
        "endpoint_url is set, and otherwise the host name.",
    )
    scratch_folder: str | None = Field(
        default=None,
        description="folder for temporary files: the input files of up to two batches, or the outputs of their lines. "
        "Null means the system's folder for temporary files.",
        min_length=1,
    )


class FilesSettings(Group):
    folder: str | None = Field(
        default=None,
        description="folder for the contents of files, which all gateways with the same store must see. Without it and "
        "without s3, /v1/files is not served. The properties of files are in the store, so store.url is required.",
        min_length=1,
    )
    s3: BucketSettings | None = Field(
        default=None,
        description="bucket of Amazon S3, or of another service with the same API, for the contents of files, in place "
        "of a folder. It needs the extra warmgate[s3] and store.url. Null means no bucket.",
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
