"""What a file does not say and its reader must: one typed bundle of choices, none with a silent default."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from unrolled.convert.spec import Dense, Embedding, Network, Part, Recurrent, refuse
from unrolled.errors import RecipeError, expected

__all__ = ["ACCEPTABLE", "Options"]

ACCEPTABLE = ("stateful", "activation", "mask_zero")


@dataclass(frozen=True)
class Options:
    """Each None means: as the file says, and an error where the file does not say it."""

    nonlinearity: str | None = None  # of an RNN: tanh or relu
    reset_after: bool | None = None  # of a GRU without biases, whose shape would tell
    forget_bias: float | None = None  # added to f at run time by TensorFlow 1
    batch_first: bool | None = None  # of the module that comes back; None: as the framework is called
    head: str | None = None  # a dense head reads: every step, or the last
    order: tuple[str, ...] = ()  # the names of the recurrent layers, first to last
    bidirectional: bool = False  # neighbouring layers are two directions, where no name says so
    single_bias: bool = False  # bias_hh is missing on purpose
    variant: str = ""  # optimized: Flax's packed LSTM cell
    opset: int | None = None  # of an ONNX file that is written
    lengths: bool = False  # give an ONNX file that is written an input with the rows' lengths
    accept: tuple[str, ...] = ()  # what may be lost: words of ACCEPTABLE

    @classmethod
    def of(cls, given: dict[str, Any]) -> Options:
        """From keywords.

        Raises:
            RecipeError: an unknown name, or a value that cannot be.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise RecipeError(expected(name, "one of " + ", ".join(known), "another option"))
        for name in ("order", "accept"):
            if name in given:
                one = given[name]
                given[name] = (one,) if isinstance(one, str) else tuple(one)
        options = cls(**given)
        for word in options.accept:
            if word not in ACCEPTABLE:
                raise RecipeError(expected("accept", "words of " + ", ".join(ACCEPTABLE), repr(word)))
        for name, allowed in (("nonlinearity", (None, "tanh", "relu")), ("head", (None, "every", "last"))):
            if getattr(options, name) not in allowed:
                raise RecipeError(expected(name, " or ".join(map(str, allowed[1:])), repr(getattr(options, name))))
        return options


def check_heads(network: Network, target: str, choice: str) -> None:
    """Refuse a dense layer before a recurrent one.

    Raises:
        ConvertError: `target` holds dense layers after the recurrent ones only.
    """
    last = max(number for number, part in enumerate(network.parts) if isinstance(part, Recurrent))
    for part in network.parts[:last]:
        if isinstance(part, Dense):
            wanted = f"dense layers after the last recurrent one only in {target} files"
            raise refuse(part.where, wanted, "one before a recurrent layer", choice)


def without_structure(network: Network, target: str, options: Options) -> Network:
    """The network as a file of bare weights can hold it: plain layers, at most one linear head.

    Raises:
        ConvertError: something that bare weights do not say; the message names it and the choice.
    """
    names = "Choose keras, onnx or unrolled, which hold the structure too"
    for level in network.recurrent:
        where = level.units[0].where
        if len(level.units) == 2 and level.merge != "concat":
            raise refuse(
                f"{where}: merge", f"concat, since a {target} file holds weights only", repr(level.merge), names + "."
            )
        for name in ("backwards", "reverse"):
            if getattr(level, name):
                raise refuse(
                    f"{where}: {name}",
                    f"a forward reading, since a {target} file holds weights only",
                    name,
                    names + ".",
                )
    check_heads(network, target, "Choose keras or unrolled, which hold it.")
    dense = [part for part in network.parts if isinstance(part, Dense)]
    if len(dense) > 1:
        raise refuse(dense[1].where, f"at most one dense head in a {target} file", len(dense), names + ".")
    parts: list[Part] = []
    notes = []
    for part in network.parts:
        if isinstance(part, Dense) and part.activation != "linear":
            wanted = f"a linear head, since a {target} file holds weights only"
            part = _lose(part, part.where, "activation", wanted, part.activation, options, names)
            notes.append("the head's activation is left out, as accepted")
        if isinstance(part, Embedding) and part.mask_zero:
            wanted = f"no mask, since a {target} file holds weights only"
            part = _lose(part, "embedding", "mask_zero", wanted, "mask_zero=True", options, names)
            notes.append("the mask of id 0 is left out, as accepted: pass lengths")
        parts.append(part)
    return Network(tuple(parts), network.batch_first, network.layer, (*network.notes, *notes))


def _lose(part: Any, where: str, name: str, wanted: str, found: object, options: Options, names: str) -> Any:
    if name not in options.accept:
        raise refuse(f"{where}: {name}", wanted, found, f"{names}, or leave it out with accept={name!r}.")
    return replace(part, activation="linear") if name == "activation" else replace(part, mask_zero=False)
