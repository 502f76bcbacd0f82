"""Commands that write weights and models for elsewhere. A body is one call, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unrolled.cli.guard import RunArgument, guarded


@guarded
def export(
    run: RunArgument,
    to: Annotated[str, typer.Option("--to", metavar="WORD", help="onnx or bundle.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Of a bundle: weights as int8, a quarter of the size.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: beside the model.", show_default=False)
    ] = None,
) -> None:
    """Write a trained model as a checked ONNX file (a seq2seq: two), or as a smaller bundle. Needs no PyTorch.

    \b
    [bold]Examples[/bold]
    unrolled export runs/sensor --to onnx
    unrolled export runs/sensor --to bundle --int8 -o sensor.safetensors
    """
    from unrolled.cli import exporting

    exporting.run(run, to, out, int8=int8)


@guarded
def convert(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A file of weights, or a run folder.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The file to write.")],
    read: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="SRC's framework. Default: by its name.", show_default=False),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", help="DST's framework. Default: by its name.", show_default=False),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Run the frameworks themselves too.")] = False,
    nonlinearity: Annotated[
        str | None,
        typer.Option("--nonlinearity", help="Of an RNN whose file does not say: tanh or relu.", show_default=False),
    ] = None,
    reset_after: Annotated[
        bool | None,
        typer.Option("--reset-after/--reset-before", help="Of a GRU whose file does not say.", show_default=False),
    ] = None,
    forget_bias: Annotated[
        float | None,
        typer.Option("--forget-bias", help="What TensorFlow 1 adds to f at run time, often 1.", show_default=False),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="What a dense head reads: every step, or the last.", show_default=False)
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option(
            "--order", metavar="NAME", help="The recurrent layers, first to last; repeat it.", show_default=False
        ),
    ] = None,
    bidirectional: Annotated[
        bool, typer.Option("--bidirectional", help="Neighbouring cells are two directions of a layer.")
    ] = False,
    single_bias: Annotated[bool, typer.Option("--single-bias", help="bias_hh is left out on purpose.")] = False,
    variant: Annotated[
        str, typer.Option("--variant", metavar="WORD", help="optimized: Flax's packed LSTM cell.", show_default=False)
    ] = "",
    lengths: Annotated[
        bool, typer.Option("--lengths", help="Give an ONNX file an input for the rows' lengths.")
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept", metavar="WORD", help="What may be lost: stateful, activation, mask_zero.", show_default=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Convert weights: torch, keras, flax-linen, flax-nnx, equinox, haiku, onnx, tf1, rtneural, unrolled.

    Every conversion is checked against the conventions of both sides before the file is written.

    \b
    [bold]Examples[/bold]
    unrolled convert model.keras model.pt
    unrolled convert lstm.pt lstm.onnx --verify
    unrolled convert model.npz model.keras --from tf1 --forget-bias 1
    unrolled convert runs/reviews reviews.onnx
    """
    from unrolled.cli import converting

    options: dict[str, Any] = {
        "nonlinearity": nonlinearity,
        "reset_after": reset_after,
        "forget_bias": forget_bias,
        "head": head,
    }
    options |= {"order": order, "bidirectional": bidirectional, "single_bias": single_bias, "variant": variant}
    options |= {"lengths": lengths, "accept": accept}
    converting.convert(source, target, read, write, options, verify=verify, as_json=json)
