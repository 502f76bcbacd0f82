"""An inspection as a notebook shows it."""

from __future__ import annotations

from typing import Any

__all__ = ["Inspection"]


class Inspection(dict[str, Any]):
    """The JSON of an inspection: a dict like any other, which a notebook shows as a page."""

    def _repr_html_(self) -> str:
        from unrolled.training.reporting.page import notebook, page_of

        return notebook(page_of(None, self, title=f"{self['task']}, {self['cell']}"))
