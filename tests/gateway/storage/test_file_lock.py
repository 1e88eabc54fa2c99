import subprocess
import sys
from pathlib import Path

import pytest

from gateway.storage.file_lock import FileLock, FileTaken

HOLD = "import sys; from pathlib import Path; from gateway.storage.file_lock import FileLock; "
HOLD += "lock = FileLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "a.db")
    with pytest.raises(FileTaken):
        FileLock(tmp_path / "a.db")
    lock.release()

    FileLock(tmp_path / "a.db").release()


@pytest.mark.e2e
def test_a_killed_process_releases_the_lock(tmp_path: Path) -> None:
    """No stale lock is left."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "a.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert "held\n" == other.stdout.readline()
        with pytest.raises(FileTaken):
            FileLock(tmp_path / "a.db")
        other.kill()
        other.wait()
        FileLock(tmp_path / "a.db").release()


def test_only_the_owner_may_read_the_lock_file(tmp_path: Path) -> None:
    FileLock(tmp_path / "a.db").release()

    assert 0o600 == (tmp_path / "a.db.lock").stat().st_mode & 0o777


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        FileLock(tmp_path / "nowhere" / "a.db")
