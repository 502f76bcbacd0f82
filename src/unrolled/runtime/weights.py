"""The tensors of a bundle, each taken once and checked: shape, type, none missing, none left over."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unrolled.errors import BundleError, expected

__all__ = ["Weights"]


class Weights:
    """Tensors by name.

    Args:
        where: the file, for messages.
    """

    def __init__(self, where: str, tensors: Mapping[str, np.ndarray]) -> None:
        self.where = where
        self._tensors = dict(tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int | None, dtype: type = np.float32) -> np.ndarray:
        """The tensor of that name, float32 unless said; None in `shape` stands for any size.

        Raises:
            BundleError: it is not there, or is not of that shape.
        """
        tensor = self._tensors.pop(name, None)
        wanted = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
        if tensor is None:
            raise BundleError(expected(f"{self.where}: {name}", f"a tensor {wanted}", "none"))
        fits = len(shape) == tensor.ndim and all(
            size in (None, own) for size, own in zip(shape, tensor.shape, strict=True)
        )
        if not fits or tensor.dtype != dtype:
            found = f"{tensor.dtype} {tensor.shape}"
            raise BundleError(expected(f"{self.where}: {name}", f"{np.dtype(dtype)} {wanted}", found))
        return tensor

    def size(self, name: str, axis: int) -> int:
        """The size of a tensor's axis, where nothing but the tensor says it; `take` then checks the tensor itself."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.ndim <= axis:
            found = "none" if tensor is None else f"{tensor.ndim} axes"
            raise BundleError(expected(f"{self.where}: {name}", f"a tensor of {axis + 1} axes or more", found))
        return int(tensor.shape[axis])

    def finish(self) -> None:
        """Raise where a tensor was not asked for: a model without it would be another model."""
        if self._tensors:
            names = sorted(self._tensors)
            found = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise BundleError(expected(self.where, "no tensor beyond the model's", found, "Is it of another task?"))
