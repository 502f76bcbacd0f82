"""Write the tables of conversion into the documents: what converts to what, and the layouts of other frameworks.

python tools/conversion.py           rewrite them
python tools/conversion.py --check   fail if they are out of date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from unrolled import conventions, convert

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {"conversion.md": convert.markdown, "conventions.md": conventions.markdown}
TABLE = re.compile(r"(<!-- table: begin \(tools/conversion\.py\) -->\n).*?(<!-- table: end -->)", re.DOTALL)


def rewritten(page: str) -> tuple[str, str]:
    """What the page says now, and what it should say."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if len(TABLE.findall(text)) != 1:
        raise SystemExit(f"docs/{page}: expected one table between its two marks")
    return text, TABLE.sub(lambda found: found[1] + PAGES[page]() + found[2], text)


def main() -> None:
    stale = []
    for page in PAGES:
        now, wanted = rewritten(page)
        if now != wanted:
            stale.append(page)
            if "--check" not in sys.argv:
                (DOCS / page).write_text(wanted, encoding="utf-8")
    if stale and "--check" in sys.argv:
        raise SystemExit(f"out of date: {', '.join(stale)}. Run: python tools/conversion.py")


if __name__ == "__main__":
    main()
