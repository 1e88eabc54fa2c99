import pytest

from gateway.settings import SettingsError, build
from gateway.settings.files import FilesSettings

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
