"""The interactive page: one file that opens from disk, in Chinese and English.

    page = render(data, title="my run", language=None)

What the page shows is computed elsewhere and handed over as `data`; `static/` holds the page's own script, style and
texts, built from `lab/` by `tools/build_lab.py`.
"""

from unrolled.lab.render import render

__all__ = ["render"]
