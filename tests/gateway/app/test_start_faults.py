"""Faults of settings that no single value shows. `tests/e2e/test_start_faults.py` has each of them in both commands."""

import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.app.start_faults import refuse_faulty
from gateway.settings import SettingsError, build

MODEL = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}


def sentences(**groups: Any) -> list[str]:
    try:
        refuse_faulty(build({"models": [MODEL], **groups}, {}))
    except SettingsError as fault:
        return fault.sentences
    return []


@pytest.mark.parametrize(
    "groups",
    [
        {},
        {"store": {"url": "sqlite:///:memory:"}},
        {"store": {"url": "redis://127.0.0.1:1/0"}},
        {"server": {"port": 0}, "admin": {"port": 0}},
        {"server": {"port": 18999, "host": "127.0.0.1"}, "admin": {"port": 18999, "host": "127.0.0.2"}},
        {"teams": [{"name": "blue", "model_limits": {"tiny": {"max_concurrent_requests": 1}}}]},
        {"models": [{"name": "tiny", "workers_file": "/not/there/yet.yaml"}]},
        {"models": [MODEL | {"tokenizer": {"path": "/nowhere", "source": "auto"}}]},
    ],
)
def test_what_can_be_used_is_not_refused(groups: dict[str, Any]) -> None:
    """Free ports, other addresses, a file of workers that is still to come, a tokenizer that the engine replaces."""
    assert [] == sentences(**groups)


def test_a_file_in_a_folder_can_be_a_store(tmp_path: Path) -> None:
    assert [] == sentences(store={"url": f"sqlite:///{tmp_path / 'warmgate.db'}"})


def test_every_fault_has_its_sentence() -> None:
    assert [
        "admin.port and server.port both use port 18999. Set them to different ports.",
        "store.url names a file in /nowhere, which is not a folder.",
        "teams[0].model_limits names 'a', which is not the name of a model (aliases are not allowed).",
    ] == sentences(
        server={"port": 18999},
        admin={"port": 18999},
        store={"url": "sqlite:////nowhere/x.db"},
        teams=[{"name": "blue", "model_limits": {"a": {"max_concurrent_requests": 1}}}],
    )


def test_a_bucket_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    found = sentences(store={"url": "sqlite:///:memory:"}, files={"s3": {"bucket": "our-files"}})

    assert ["files.s3 needs the extra warmgate[s3], which is not installed."] == found
