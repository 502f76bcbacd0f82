"""PNG pictures by matplotlib (extra "plot"): one way to begin one and one way to save it. Imports nothing of ours."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from unrolled.errors import RunError, expected, require

__all__ = ["new_figure", "save"]

# Latin first, then what the systems bring for Chinese, Japanese and Korean.
FAMILIES = (
    *("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Microsoft YaHei"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "Arial Unicode MS"),
)


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure, in inches.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    return require("matplotlib.figure", "plot").Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: str | Path) -> list[str]:
    """Write the figure as a PNG. Returns notes: which signs no font of this machine has.

    Raises:
        RunError: the file cannot be written.
    """
    matplotlib = require("matplotlib", "plot")
    there = set(require("matplotlib.font_manager", "plot").fontManager.get_font_names())
    family = [name for name in FAMILIES if name in there]
    with matplotlib.rc_context({"font.family": family}), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for text in figure.findobj(match=matplotlib.text.Text):
            text.set_fontfamily(family)
        try:
            figure.savefig(path, dpi=120)
        except (OSError, ValueError) as error:
            raise RunError(expected("plot", "a file that can be written, such as plot.png", str(error))) from None
    codes = {
        int(code) for one in said if "Glyph" in str(one.message) for code in re.findall(r"\d+", str(one.message))[:1]
    }
    if not codes:
        return []
    signs = "".join(map(chr, sorted(codes)[:20]))
    return [f"{Path(path).name}: no font here has {signs}; install one, such as Noto Sans CJK, and draw again"]
