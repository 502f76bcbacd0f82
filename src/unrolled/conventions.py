"""How each framework lays out the weights of RNN, LSTM and GRU, and which equation it runs on them: one table.

Axes     I input, H hidden, P state after a projection (H without one), G gates; a block is the H units of one gate.
Gates    LSTM i input, f forget, g candidate, o output; GRU r reset, z update, n candidate; the RNN's one block is h.
         The letters are ours: Keras, ONNX and RTNeural write c for our g, TensorFlow 1 writes j, Haiku writes a for n.
Source   each row names the file it was read from; the tests hold each row against that framework running, and the rows
         of TensorFlow 1 and RTNeural against a program written from those files.

`unrolled.convert` reads this table; nothing else says how a framework orders its gates. Imports nothing of ours.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LAYOUTS", "OURS", "Layout", "find", "markdown"]


@dataclass(frozen=True)
class Layout:
    """One cell of one framework."""

    framework: str
    cell: str  # rnn, lstm, gru
    gates: str  # the order of the blocks
    matrices: str  # rows (G·H, I) | columns (I, G·H) | joined (I + P, G·H) | separate (I, H) each
    input_bias: str  # the gates that have a bias beside x W
    hidden_bias: str  # the gates that have a bias beside h U
    source: str  # the file that this row was read from
    kind: str = ""  # tells apart the cells of one framework; "" where there is one
    optional_bias: bool = True  # may all biases be left out
    reset: str = ""  # GRU: after or before the product with the recurrent matrix
    keeps: bool = True  # GRU: does z = 1 keep the old state (else it takes the candidate)
    forget_offset: float | None = 0.0  # LSTM: added to f at every call and not stored; None: chosen at run time
    state: str = "h"  # the parts of the state in their order
    nonlinearities: str = ""  # RNN: which ones the cell can have
    projection: bool = False  # LSTM: can it project the state
    note: str = ""

    @property
    def name(self) -> str:
        """framework/cell, and the kind where there are several: keras/gru/before."""
        return "/".join(filter(None, (self.framework, self.cell, self.kind)))


OURS = {"rnn": "h", "lstm": "ifgo", "gru": "rzn"}  # the order of the gate axis in `unrolled.equations`

_KERAS = "keras 3, src/layers/rnn"
_LINEN = "flax, linen/recurrent.py"
_NNX = "flax, nnx/nn/recurrent.py"
_EQUINOX = "equinox, nn/_rnn.py"
_HAIKU = "dm-haiku, _src/recurrent.py"
_TF1 = "tensorflow 1.15, python/ops/rnn_cell_impl.py"
_RTNEURAL = "RTNeural, RTNeural/model_loader.h"

LAYOUTS: tuple[Layout, ...] = (
    Layout("torch", "rnn", "h", "rows", "h", "h", "torch, nn/modules/rnn.py", nonlinearities="tanh relu"),
    Layout("torch", "lstm", "ifgo", "rows", "ifgo", "ifgo", "torch, nn/modules/rnn.py", state="h c", projection=True),
    Layout("torch", "gru", "rzn", "rows", "rzn", "rzn", "torch, nn/modules/rnn.py", reset="after"),
    Layout("keras", "rnn", "h", "columns", "h", "", f"{_KERAS}/simple_rnn.py", nonlinearities="tanh relu"),
    Layout("keras", "lstm", "ifgo", "columns", "ifgo", "", f"{_KERAS}/lstm.py", state="h c"),
    Layout("keras", "gru", "zrn", "columns", "zrn", "zrn", f"{_KERAS}/gru.py", kind="after", reset="after",
           note="bias (2, 3H)"),
    Layout("keras", "gru", "zrn", "columns", "zrn", "", f"{_KERAS}/gru.py", kind="before", reset="before",
           note="bias (3H,)"),
    Layout("flax-linen", "rnn", "h", "columns", "h", "", f"{_LINEN}, SimpleCell", optional_bias=False,
           nonlinearities="tanh"),
    Layout("flax-linen", "lstm", "ifgo", "separate", "", "ifgo", f"{_LINEN}, LSTMCell and OptimizedLSTMCell",
           optional_bias=False, state="c h"),
    Layout("flax-linen", "gru", "rzn", "separate", "rzn", "n", f"{_LINEN}, GRUCell", optional_bias=False,
           reset="after"),
    Layout("flax-nnx", "rnn", "h", "columns", "h", "", f"{_NNX}, SimpleCell", optional_bias=False,
           nonlinearities="tanh"),
    Layout("flax-nnx", "lstm", "ifgo", "separate", "", "ifgo", f"{_NNX}, LSTMCell", optional_bias=False, state="c h"),
    Layout("flax-nnx", "lstm", "ifgo", "columns", "", "ifgo", f"{_NNX}, OptimizedLSTMCell", kind="optimized",
           optional_bias=False, state="c h"),
    Layout("flax-nnx", "gru", "rzn", "columns", "rzn", "", f"{_NNX}, GRUCell", optional_bias=False, reset="after",
           note="no place for a recurrent bias of the candidate"),
    Layout("equinox", "lstm", "ifgo", "rows", "ifgo", "", f"{_EQUINOX}, LSTMCell", state="h c"),
    Layout("equinox", "gru", "rzn", "rows", "rzn", "n", f"{_EQUINOX}, GRUCell", reset="after"),
    Layout("haiku", "rnn", "h", "columns", "h", "h", f"{_HAIKU}, VanillaRNN", optional_bias=False,
           nonlinearities="relu", note="double_bias=False leaves out the hidden bias"),
    Layout("haiku", "lstm", "igfo", "joined", "ifgo", "", f"{_HAIKU}, LSTM", optional_bias=False, forget_offset=1.0,
           state="h c"),
    Layout("haiku", "gru", "zrn", "columns", "zrn", "", f"{_HAIKU}, GRU", optional_bias=False, reset="before",
           keeps=False),
    Layout("onnx", "rnn", "h", "rows", "h", "h", "onnx, defs/rnn/defs.cc, RNN", nonlinearities="tanh relu"),
    Layout("onnx", "lstm", "iofg", "rows", "ifgo", "ifgo", "onnx, defs/rnn/defs.cc, LSTM", state="h c"),
    Layout("onnx", "gru", "zrn", "rows", "zrn", "zrn", "onnx, defs/rnn/defs.cc, GRU", kind="after", reset="after",
           note="linear_before_reset=1"),
    Layout("onnx", "gru", "zrn", "rows", "zrn", "zrn", "onnx, defs/rnn/defs.cc, GRU", kind="before", reset="before",
           note="linear_before_reset=0"),
    Layout("tf1", "rnn", "h", "joined", "h", "", f"{_TF1}, BasicRNNCell", optional_bias=False, nonlinearities="tanh"),
    Layout("tf1", "lstm", "igfo", "joined", "ifgo", "", f"{_TF1}, LSTMCell and BasicLSTMCell", optional_bias=False,
           forget_offset=None, state="c h", projection=True),
    Layout("tf1", "gru", "rzn", "joined", "rzn", "", f"{_TF1}, GRUCell", optional_bias=False, reset="before",
           note="two kernels: gates (r, z) and candidate"),
    Layout("rtneural", "lstm", "ifgo", "columns", "ifgo", "", f"{_RTNEURAL}, createLSTM", optional_bias=False,
           state="h c"),
    Layout("rtneural", "gru", "zrn", "columns", "zrn", "zrn", f"{_RTNEURAL}, createGRU", optional_bias=False,
           reset="after", note="bias (2, 3H)"),
)  # fmt: skip


def find(framework: str, cell: str, kind: str = "") -> Layout | None:
    """The row of that framework and cell, or None where the framework has no such cell.

    Where a framework has several rows for a cell, `kind` picks one ("after", "before", "optimized").
    """
    for layout in LAYOUTS:
        if (layout.framework, layout.cell, layout.kind) == (framework, cell, kind):
            return layout
    return None


_SHAPES = {"rows": "(G·H, I)", "columns": "(I, G·H)", "joined": "(I + H, G·H)", "separate": "(I, H) a gate"}


def markdown() -> str:
    """The table as Markdown, for the documents."""
    lines = [
        "| cell | gates | weights | bias beside x W | bias beside h U | variant | read from |",
        "|---|---|---|---|---|---|---|",
    ]
    for layout in LAYOUTS:
        shown = (" ".join(layout.gates), _SHAPES[layout.matrices], _gates(layout, "input"), _gates(layout, "hidden"))
        lines.append(f"| {layout.name} | " + " | ".join(shown) + f" | {_variant(layout)} | {layout.source} |")
    return "\n".join(lines) + "\n"


def _gates(layout: Layout, side: str) -> str:
    named = layout.input_bias if side == "input" else layout.hidden_bias
    if set(named) == set(layout.gates):
        return "yes"
    return f"only {' '.join(named)}" if named else "no"


def _variant(layout: Layout) -> str:
    said = []
    if layout.reset:
        said.append(f"reset {layout.reset}; {'z h + (1 − z) n' if layout.keeps else '(1 − z) h + z n'}")
    if layout.forget_offset is None:
        said.append("forget bias added at run time")
    elif layout.forget_offset:
        said.append(f"{layout.forget_offset:+g} on f at every call")
    if layout.nonlinearities:
        said.append(layout.nonlinearities.replace(" ", " or "))
    if layout.cell == "lstm":
        said.append(f"state ({layout.state.replace(' ', ', ')})")
    if layout.projection:
        said.append("projection")
    return "; ".join([*said, layout.note] if layout.note else said)
