"""The interactive page: one file that opens from disk, in Chinese and English.

    page = render(with_demo(data), title="my run", language=None)

What the page shows is computed elsewhere and handed over as `data`; `static/` holds the page's own script, style and
texts, built from `lab/` by `tools/build_lab.py`.
"""

from unrolled.lab.demo import demo, with_demo
from unrolled.lab.render import render

__all__ = ["demo", "render", "with_demo"]
