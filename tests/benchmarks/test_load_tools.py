from pathlib import Path

import pytest

from benchmarks.load_tools import install_tools
from benchmarks.processes import ChildFailedError


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where it cannot be installed from here."""
    wrk = tmp_path / "wrk"
    wrk.write_text("#!/bin/sh\n")
    wrk.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        ChildFailedError, match=r"^nginx missing .Debian: apt-get install nginx-light., and there is no"
    ):
        install_tools(also_in=str(tmp_path))
