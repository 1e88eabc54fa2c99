"""`python -m documentation`: build the site into build/docs/site and check it; exit status 1 if a check fails."""

import subprocess
import sys
from pathlib import Path

import yaml

from documentation import line_breaks, link_check, llms, staging

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "mkdocs.yml"


def main() -> int:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    pages, site = ROOT / config["docs_dir"], ROOT / config["site_dir"]
    staging.stage(ROOT, pages)
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(CONFIG)]
    if subprocess.run(build, check=False).returncode:  # noqa: S603 -- a fixed command
        return 1
    sections = llms.sections_of(config["nav"])
    (site / "llms.txt").write_text(llms.summary(config, sections, pages), encoding="utf-8")
    (site / "llms-full.txt").write_text(llms.full_text(sections, pages), encoding="utf-8")
    line_breaks.add(site)
    faults = link_check.faults(site)
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    sys.stdout.write(f"{len(list(site.rglob('*.html')))} pages, {len(faults)} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
