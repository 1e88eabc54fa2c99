"""Places where a browser is allowed to break long names: after dots, underscores and slashes of inline code."""

import re
from pathlib import Path

_CODE = re.compile(r"<pre\b.*?</pre>|<code>([^<]+)</code>", re.DOTALL)
_BREAK = re.compile(r"(?<=[A-Za-z0-9\])])([._/]+)(?=[A-Za-z\[{])")

_AFTER = r"\1<wbr>"


def add(site: Path) -> None:
    """Add the places to every page of the built *site*. Copied text stays the same."""
    for path in site.rglob("*.html"):
        path.write_text(breakable(path.read_text(encoding="utf-8")), encoding="utf-8")


def breakable(html: str) -> str:
    """Return *html* with ``<wbr>`` in inline code; blocks of code stay as they are."""
    return _CODE.sub(_with_breaks, html)


def _with_breaks(code: re.Match[str]) -> str:
    return code[0] if code[1] is None else f"<code>{_BREAK.sub(_AFTER, code[1])}</code>"
