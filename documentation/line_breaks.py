"""Places where a browser breaks inline code: long names after dots, underscores and slashes, options nowhere."""

import re
from pathlib import Path

LONGEST = 16
"""Letters of a name that is never broken."""

_CODE = re.compile(r"<pre\b.*?</pre>|<code>([^<]+)</code>", re.DOTALL)
_NAME = re.compile(rf"[^\s-][^\s]{{{LONGEST},}}")
_BREAK = re.compile(r"(?<=[A-Za-z0-9\])])([._/]+)(?=[A-Za-z\[{])")
_OPTION = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*")


def add(site: Path) -> None:
    """Add the places to every page of the built *site*. Copied text stays the same."""
    for path in site.rglob("*.html"):
        path.write_text(breakable(path.read_text(encoding="utf-8")), encoding="utf-8")


def breakable(html: str) -> str:
    """Return *html* with ``<wbr>`` in the long names of inline code; blocks of code stay as they are.

    Browsers break a line after each hyphen, so options get the class ``option``, which docs/site.css keeps whole.
    """
    return _CODE.sub(_inline, html)


def _inline(code: re.Match[str]) -> str:
    if code[1] is None:
        return code[0]
    text = _NAME.sub(lambda name: _BREAK.sub(r"\1<wbr>", name[0]), code[1])
    return "<code>" + _OPTION.sub(r'<span class="option">\g<0></span>', text) + "</code>"
