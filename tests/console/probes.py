"""Texts that would run a script, or change a page, if the console did not escape them."""

from typing import Final

_TEXTS: Final = (
    "<script>RUN</script>",
    "</script><script>RUN</script>",
    "<ScRiPt>RUN</sCrIpT>",
    "<script src=data:text/javascript,RUN></script>",
    "<script/probe>RUN</script>",
    "<script\tprobe>RUN</script>",
    "<<script>RUN//<</script>",
    "<img src=x onerror=RUN>",
    "<img src=x onerror='RUN'>",
    '<img src=x onerror="RUN">',
    "<img/src=x/onerror=RUN>",
    "<img src=`x` onerror=RUN>",
    '"><img src=x onerror=RUN>',
    "'><img src=x onerror=RUN>",
    "--><img src=x onerror=RUN>",
    "]]><img src=x onerror=RUN>",
    "</title><img src=x onerror=RUN>",
    "</textarea><img src=x onerror=RUN>",
    "</style><img src=x onerror=RUN>",
    "</noscript><img src=x onerror=RUN>",
    "</template><img src=x onerror=RUN>",
    "</option></select><img src=x onerror=RUN>",
    "</td></tr></table><img src=x onerror=RUN>",
    "<svg onload=RUN>",
    "<svg/onload=RUN>",
    "<svg><script>RUN</script></svg>",
    "<svg><animate onbegin=RUN attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:RUN><text>probe</text></a></svg>",
    "<math><mtext><img src=x onerror=RUN></mtext></math>",
    "<math href=javascript:RUN>probe</math>",
    "<body onload=RUN>",
    "<body onpageshow=RUN>",
    "<iframe src=javascript:RUN></iframe>",
    "<iframe srcdoc='<script>parent.RUN</script>'></iframe>",
    "<object data=javascript:RUN></object>",
    "<embed src=javascript:RUN>",
    "<input autofocus onfocus=RUN>",
    "<select autofocus onfocus=RUN></select>",
    "<textarea autofocus onfocus=RUN></textarea>",
    "<details open ontoggle=RUN>",
    "<video><source onerror=RUN></video>",
    "<audio src=x onerror=RUN>",
    "<marquee onstart=RUN>probe</marquee>",
    "<form action=javascript:RUN><button>probe</button></form>",
    "<button formaction=javascript:RUN>probe</button>",
    "<a href=javascript:RUN>probe</a>",
    "javascript:RUN",
    "JaVaScRiPt:RUN",
    "data:text/html,<script>RUN</script>",
    '" onmouseover="RUN" probe="',
    "' onfocus='RUN' autofocus probe='",
    '" autofocus onfocus="RUN" x="',
    "` onfocus=`RUN` autofocus",
    "<base href=//evil.test/>",
    "<meta http-equiv=refresh content='0;url=javascript:RUN'>",
    "<link rel=stylesheet href=data:text/css,x>",
    "<style>@import 'data:text/css,x';</style>",
    "{{ 7*7 }}{% raw %}<img src=x onerror=RUN>",
    "${RUN}`;RUN;//",
    "&lt;img src=x onerror=RUN&gt;<img src=x onerror=RUN>",
)
PROBES: Final = tuple(text.replace("RUN", f"probed={number}") for number, text in enumerate(_TEXTS, 1))
"""60 probes. Each sets the variable `probed` to its number if it runs."""
WITHOUT_SPACES: Final = tuple(
    text for text in PROBES if text.isascii() and text.isprintable() and " " not in text and len(text) <= 100
)
PRINTABLE: Final = tuple(text for text in PROBES if text.isprintable() and "*" not in text)

INJECTED: Final = """
() => [...document.querySelectorAll(
  "[onerror], [onload], [onfocus], [onmouseover], [onbegin], [ontoggle], [onstart], [onpageshow], [probe], "
  + "iframe, object, embed, marquee, base, math, audio, video, meta[http-equiv], style, "
  + "img[src=x], link[href^='data:'], [href^='javascript:' i], [src^='javascript:' i], "
  + "[action^='javascript:' i], [formaction^='javascript:' i], [href^='data:'], script:not([src^='/console/static/'])"
)].map((element) => element.outerHTML.slice(0, 200))
"""
"""Elements that no page of the console has."""
