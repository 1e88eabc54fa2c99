"""A step of building the image: take out of the environment that runs this what a gateway never reads.

Those are test suites of numpy, where in the world phonenumbers has its numbers and whose they are, and, of botocore's
descriptions of some 400 services, all but what the gateway calls or what a chain of credentials may call. It makes the
image about a third smaller. What is left is still what the digests
of deploy/requirements.lock vouch for: files are removed, none is changed.
"""

import shutil
import sysconfig
from pathlib import Path

SERVICES = frozenset({"bedrock-runtime", "signin", "sso", "sso-oidc", "sts"})
"""Folders of botocore/data that stay: Bedrock, and whom botocore's own providers of credentials ask."""
WHERE_AND_WHOSE = ("geodata", "carrierdata")
"""Data of phonenumbers that validation does not need."""


def superfluous(site_packages: Path) -> list[Path]:
    """Folders below *site_packages* that can go. Empty where none of the packages is there."""
    descriptions = (site_packages / "botocore" / "data").glob("*/")
    suites = (site_packages / "numpy").rglob("tests/")
    numbers = (site_packages / "phonenumbers" / name for name in WHERE_AND_WHOSE)
    return sorted(
        path
        for path in (*suites, *numbers, *(path for path in descriptions if path.name not in SERVICES))
        if path.is_dir()  # before Python 3.13 the slash at the end of a pattern lets files through
    )


def remove(folders: list[Path]) -> int:
    """Delete *folders* with all that is in them. Returns the bytes that they had."""
    sizes = [sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in folders]
    for folder in folders:
        shutil.rmtree(folder)
    return sum(sizes)


if __name__ == "__main__":
    found = superfluous(Path(sysconfig.get_path("purelib")))
    print(f"{remove(found) / 2**20:.0f} MiB less, {len(found)} folders")
