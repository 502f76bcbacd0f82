"""Mixed precision: which products of a training step are rounded to 16 bits, and what never is.

Source   Micikevicius et al. (2018), arXiv:1710.03740: float32 weights beside 16-bit products, and a scaled loss, since
         float16 cannot hold small gradients. `torch.autocast` says which operations are rounded.
Variant  Only the model's forward pass in training is rounded. Its results come back in float32: losses, softmaxes, the
         CRF, the states that are carried on, gradients of weights, the optimizer and every score are float32, and an
         evaluation or a saved model knows nothing of it.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.errors import RecipeError, expected
from unrolled.kernels import choose
from unrolled.layers import Recurrent
from unrolled.models.parts import widened

__all__ = ["Precision", "bfloat16_instructions"]

DTYPES = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


def bfloat16_instructions() -> list[str]:
    """What this processor has for products of bfloat16, such as avx512_bf16; without, they are slow."""
    return [name for name, has in torch.cpu.get_capabilities().items() if "bf16" in name and has is True]


class Precision:
    """The precision of a run on one device.

    Args:
        name: float32, bfloat16 or float16.

    Raises:
        RecipeError: it cannot be had on this device.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device, self.dtype = name, device, DTYPES[name]
        if self.dtype is not None and device.type not in ("cpu", "cuda"):
            way_out = "Leave out --precision; half precision has not been tried there."
            raise RecipeError(expected("precision", f"float32 on {device.type}", name, way_out))
        if self.dtype is torch.bfloat16 and device.type == "cuda" and not torch.cuda.is_bf16_supported():
            way_out = "Use --precision float16."
            raise RecipeError(expected("precision", f"float32 or float16 on {device}", name, way_out))
        # Passes everything through where it is not enabled.
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.dtype is torch.float16)

    def apply(self, model: nn.Module) -> None:
        """From here on the model's forward pass in training mode is rounded, and returns float32."""
        if self.dtype is None:
            return
        plain, kind, dtype = type(model).forward, self.device.type, self.dtype

        def forward(module: nn.Module, *given: Any, **keywords: Any) -> Any:
            if not module.training:
                return plain(module, *given, **keywords)
            with torch.autocast(kind, dtype=dtype):
                found = plain(module, *given, **keywords)
            return _in_float32(found)

        vars(model)["forward"] = MethodType(forward, model)  # a method, so that a copy of the model calls its own

    @property
    def note(self) -> str | None:
        """What a person should know before a long run; None where there is nothing."""
        if self.device.type != "cpu" or self.dtype is None or (self.name == "bfloat16" and bfloat16_instructions()):
            return None
        return f"{self.name}: this processor is not known to be fast in it; compare the time of a step with float32"

    def engine(self, model: nn.Module) -> dict[str, str]:
        """`engine` and `reason` of the recurrent layers; empty where there are none.

        Raises:
            RecipeError: the backend that was asked for cannot run them in this precision.
        """
        layer = next((module for module in model.modules() if isinstance(module, Recurrent)), None)
        if layer is None:
            return {}
        x = torch.zeros(1, 1, 1, device=self.device)
        after = bool(getattr(layer, "reset_after", True))
        try:
            with torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype is not None):
                choice = choose(layer.SCAN, x, reset_after=after, backend=layer.backend, memory=layer.memory)
        except RuntimeError as error:
            raise RecipeError(f"precision {self.name}: {error}") from None
        return {"engine": choice.name, "reason": choice.reason}


def _in_float32(found: Any) -> Any:
    """Tensors of 16 bits as float32, in tuples too."""
    if isinstance(found, Tensor):
        return widened(found)
    if isinstance(found, tuple):
        parts = [_in_float32(part) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
    return found
