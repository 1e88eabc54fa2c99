import json
from pathlib import Path

import pytest

from benchmarks.peers.environment import PEERS, NotInstalledError, Peer, install, main


def an_environment(directory: Path, *, pip: int) -> Peer:
    """One whose interpreter ends with status *pip* whatever it is asked."""
    peer = Peer("nobody", ("nothing==1.0",), directory)
    peer.python.parent.mkdir(parents=True)
    peer.python.write_text(f"#!/bin/sh\necho ran >> {directory}/ran\nexit {pip}\n")
    peer.python.chmod(0o755)
    return peer


def test_every_peer_is_pinned() -> None:
    """Figures of another version would be figures of something else."""
    assert all("==" in requirement for peer in PEERS.values() for requirement in peer.pins)


@pytest.mark.e2e
def test_an_environment_that_is_as_asked_for_is_left_alone(tmp_path: Path) -> None:
    """The second call costs nothing."""
    peer = an_environment(tmp_path / "nobody", pip=0)
    install(peer)
    install(peer)

    assert "ran\n" == (peer.directory / "ran").read_text()
    assert ["nothing==1.0"] == json.loads((peer.directory / "installed.json").read_text())
    assert "*\n" == (peer.directory / ".gitignore").read_text()


@pytest.mark.e2e
def test_other_requirements_are_installed_again(tmp_path: Path) -> None:
    """A new pin takes effect where an old one is installed."""
    peer = an_environment(tmp_path / "nobody", pip=0)
    install(peer)
    install(Peer("nobody", ("nothing==2.0",), peer.directory))

    assert "ran\nran\n" == (peer.directory / "ran").read_text()


@pytest.mark.e2e
def test_what_could_not_be_installed_is_named(tmp_path: Path) -> None:
    peer = an_environment(tmp_path / "nobody", pip=1)

    with pytest.raises(NotInstalledError, match=r"nothing==1\.0 could not be installed"):
        install(peer)
    assert not (peer.directory / "installed.json").exists()


def test_only_known_peers_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else ends with the names there are."""
    with pytest.raises(SystemExit, match="2"):
        main(["nobody"])
    assert "dynamo" in capsys.readouterr().err


@pytest.mark.e2e
def test_what_is_needed_whole_is_installed_with_all_that_it_requires(tmp_path: Path) -> None:
    """Before the rest, which is installed alone; both are remembered."""
    alone, whole = ("nothing==1.0",), ("everything==2.0",)
    peer = Peer("nobody", alone, tmp_path / "nobody", whole)
    peer.python.parent.mkdir(parents=True)
    peer.python.write_text(f'#!/bin/sh\necho "$@" >> {peer.directory}/ran\n')
    peer.python.chmod(0o755)
    install(peer)
    first, second = (peer.directory / "ran").read_text().splitlines()

    assert first.endswith("--disable-pip-version-check everything==2.0")
    assert second.endswith("--no-deps nothing==1.0")
    assert ["nothing==1.0", "everything==2.0"] == json.loads((peer.directory / "installed.json").read_text())
