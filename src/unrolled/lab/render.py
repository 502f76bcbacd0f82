"""One HTML file with everything inside: script, style, texts and the data to show.

The page may run the one script that is built here (named by its hash), load nothing, and send nothing. Data are
inlined as JSON in which no `<` is left, so no text in them can end the element that holds them.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from functools import cache
from importlib import resources
from typing import Any

from unrolled.errors import expected

__all__ = ["render"]

PAGES = ("lab", "report")
LANGUAGES = ("en", "zh", None)

TEMPLATE = """<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="app"><noscript>This page draws with JavaScript. 本页用 JavaScript 绘制。</noscript></div>
<script type="application/json" id="content">{content}</script>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def render(data: dict[str, Any], *, title: str, language: str | None = None, served: bool = False) -> str:
    """The page as HTML.

    Args:
        data: what the page shows; `data["page"]` is "lab" or "report". Numbers that are not finite may be given as
            floats or as the words of `unrolled.insight.packing`.
        title: of the browser's window until the page has drawn itself.
        language: "en", "zh", or None for the reader's own.
        served: the page comes from a server and may ask that server, and no other.

    Raises:
        ValueError: `page` or `language` is none of the above, or data hold what JSON cannot.
    """
    if data.get("page") not in PAGES:
        raise ValueError(expected('data["page"]', " or ".join(PAGES), repr(data.get("page"))))
    if language not in LANGUAGES:
        raise ValueError(expected("language", '"en", "zh" or None', repr(language)))
    script = _static("lab.js")
    policy = _policy(script, served)
    return TEMPLATE.format(
        lang="zh-Hans" if language == "zh" else "en",
        policy=html.escape(policy, quote=True),
        title=html.escape(title),
        style=_static("lab.css"),
        content=_inline(json.loads(_static("content.json"))),
        data=_inline({**data, "language": language}),
        script=script,
    )


def _policy(script: str, served: bool) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",  # charts carry their own style
        "font-src": "data:",
        "img-src": "data: blob:",
        "connect-src": "'self'" if served else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _inline(value: Any) -> str:
    """JSON that can stand inside a script element: `<` cannot occur, so neither `</script>` nor `<!--` can."""
    try:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()  # a lone surrogate in a text is not UTF-8
    except UnicodeEncodeError:
        text = json.dumps(_finite(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    except TypeError as error:
        raise ValueError(expected("data", "text, numbers, lists and dicts", str(error))) from None
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _finite(value: Any) -> Any:
    """The same with words in the place of what is no number."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


@cache
def _static(name: str) -> str:
    return resources.files("unrolled.lab").joinpath("static", name).read_text(encoding="utf-8")
