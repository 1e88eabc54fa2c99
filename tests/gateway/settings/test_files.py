import pytest

from gateway.settings import SettingsError, build
from gateway.settings.files import BucketSettings, FilesSettings

MODEL = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}


def test_no_files_are_served_without_a_folder() -> None:
    """200 MB and 50,000 lines a file, 30 days, once they are."""
    settings = FilesSettings()

    assert (None, 200_000_000, 50_000, 2_592_000) == (
        settings.folder,
        settings.max_file_bytes,
        settings.max_lines,
        settings.keep_s,
    )


def test_files_need_a_store() -> None:
    with pytest.raises(SettingsError, match=r"files\.folder needs a store"):
        build({"models": [MODEL], "files": {"folder": "files"}}, {})

    settings = build({"models": [MODEL], "files": {"folder": "files"}, "store": {"url": "sqlite:///x.db"}}, {})
    assert "files" == settings.files.folder


def test_contents_can_be_in_a_bucket() -> None:
    """The default is Amazon S3, in the region that AWS's tools use."""
    store = {"url": "sqlite:///x.db"}
    found = build({"models": [MODEL], "files": {"s3": {"bucket": "our-files"}}, "store": store}, {}).files

    assert found.folder is None
    assert BucketSettings(bucket="our-files") == found.s3
    assert found.s3 is not None
    assert ("", None, None, "auto", None) == (
        *(found.s3.prefix, found.s3.region, found.s3.endpoint_url),
        *(found.s3.addressing, found.s3.scratch_folder),
    )


def test_contents_have_one_place() -> None:
    files = {"folder": "files", "s3": {"bucket": "our-files"}}
    with pytest.raises(SettingsError, match=r"files\.s3 cannot be combined with files\.folder"):
        build({"models": [MODEL], "files": files, "store": {"url": "sqlite:///x.db"}}, {})


def test_a_bucket_needs_a_store() -> None:
    with pytest.raises(SettingsError, match=r"files\.s3 needs a store"):
        build({"models": [MODEL], "files": {"s3": {"bucket": "our-files"}}}, {})


@pytest.mark.parametrize(
    ("bucket", "field"),
    [
        ({}, "bucket"),
        ({"bucket": "s3://x"}, "bucket"),
        ({"bucket": "our-files", "endpoint_url": "minio:9000"}, "endpoint_url"),
        ({"bucket": "our-files", "addressing": "host"}, "addressing"),
    ],
)
def test_an_invalid_bucket_names_its_field(bucket: dict[str, str], field: str) -> None:
    with pytest.raises(SettingsError, match=rf"files\.s3\.{field}"):
        build({"models": [MODEL], "files": {"s3": bucket}, "store": {"url": "sqlite:///x.db"}}, {})
