"""Build step of the image: remove files that a gateway never reads from the current environment.

The step removes the test suites of numpy, the regions and carriers of phonenumbers, and botocore's descriptions of some
400 AWS services that neither the gateway nor the AWS credential chain calls. The image becomes about a third smaller.
All remaining files still match the digests in deploy/requirements.lock, because no file is changed.
"""

import shutil
import sysconfig
from pathlib import Path

SERVICES = frozenset({"bedrock-runtime", "s3", "signin", "sso", "sso-oidc", "sts"})
"""Folders of botocore/data to keep: Bedrock, S3, and services that botocore needs to obtain credentials."""
WHERE_AND_WHOSE = ("geodata", "carrierdata")
"""Data folders of the package phonenumbers that validation does not need."""


def superfluous(site_packages: Path) -> list[Path]:
    """Return the folders below *site_packages* that are not needed, of the packages that are installed."""
    descriptions = (site_packages / "botocore" / "data").glob("*/")
    suites = (site_packages / "numpy").rglob("tests/")
    numbers = (site_packages / "phonenumbers" / name for name in WHERE_AND_WHOSE)
    return sorted(
        path
        for path in (*suites, *numbers, *(path for path in descriptions if path.name not in SERVICES))
        if path.is_dir()  # before Python 3.13 the slash at the end of a pattern lets files through
    )


def remove(folders: list[Path]) -> int:
    """Delete *folders* with their contents. Return the number of bytes freed."""
    sizes = [sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in folders]
    for folder in folders:
        shutil.rmtree(folder)
    return sum(sizes)


if __name__ == "__main__":
    found = superfluous(Path(sysconfig.get_path("purelib")))
    print(f"{remove(found) / 2**20:.0f} MiB saved by removing {len(found)} folders")
