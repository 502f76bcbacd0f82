"""Flax, Equinox and Haiku in a process of their own: they write files and outputs, and run files that we wrote.

JAX starts threads that do not go with a fork, and these imports take as much memory as all others together, so the
tests run this file once, as a program: jax_side.py FOLDER. It writes FOLDER/NAME.npz (the weights, by the lines of
docs/conversion.md) and FOLDER/NAME.out.npz (what the framework computes) for each case, and FOLDER/NAME.ran.npz for
each NAME.npz of ours in FOLDER/ours.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
DOCS = Path(__file__).parents[2] / "docs" / "conversion.md"
INPUTS, HIDDEN = 5, 3
RNG = np.random.default_rng(17)
X = RNG.normal(size=(4, 6, INPUTS)).astype(np.float32)
H, C = (RNG.normal(size=(2, 4, HIDDEN)).astype(np.float32) for _ in range(2))  # of two layers or directions
IDS = RNG.integers(0, 7, size=(4, 6))


def page() -> dict[str, Any]:
    """The functions that the page shows."""
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(DOCS), "exec"), found)
    return found


def drawn(shape: Any) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32) * 0.5


def write(name: str, **outputs: Any) -> None:
    np.savez(FOLDER / f"{name}.npz", **{key: np.asarray(value) for key, value in outputs.items()})


def flax_carry(cell: str, number: int) -> Any:
    return (C[number], H[number]) if "lstm" in cell else H[number]


def carried(carry: Any, *, flax: bool = False) -> dict[str, Any]:
    """h and c of a final state, whatever its order."""
    if not isinstance(carry, tuple):
        return {"h": carry}
    return dict(zip("ch" if flax else "hc", carry, strict=True))


# Flax linen


def linen(lines: dict[str, Any]) -> None:
    import jax
    from flax import linen as nn

    makes = {"lstm": nn.LSTMCell, "optimized lstm": nn.OptimizedLSTMCell, "gru": nn.GRUCell, "rnn": nn.SimpleCell}
    for cell, make in makes.items():
        model = nn.RNN(make(HIDDEN), return_carry=True)
        variables = jax.tree.map(lambda a: drawn(a.shape), model.init(jax.random.key(0), X))
        lines["write_linen"](variables, FOLDER / f"linen {cell}.npz")
        carry, out = model.apply(variables, X, initial_carry=flax_carry(cell, 0))
        write(f"linen {cell}.out", out=out, **carried(carry, flax=True))
    both = nn.Bidirectional(nn.RNN(nn.GRUCell(HIDDEN)), nn.RNN(nn.GRUCell(HIDDEN)))
    variables = jax.tree.map(lambda a: drawn(a.shape), both.init(jax.random.key(0), X))
    lines["write_linen"](variables, FOLDER / "linen both.npz")
    write("linen both.out", out=both.apply(variables, X, initial_carry=(H[0], H[1])))

    class Whole(nn.Module):
        @nn.compact
        def __call__(self, ids: Any) -> Any:
            x = nn.Embed(7, 4)(ids)
            for _ in range(2):
                x = nn.RNN(nn.LSTMCell(HIDDEN))(x)
            return nn.Dense(2)(x)

    variables = jax.tree.map(lambda a: drawn(a.shape), Whole().init(jax.random.key(0), IDS))
    lines["write_linen"](variables, FOLDER / "linen whole.npz")
    write("linen whole.out", out=Whole().apply(variables, IDS))
    for path in sorted((FOLDER / "ours").glob("flax-linen *.npz")):
        linen_runs(nn, makes, lines, path)


def linen_runs(nn: Any, makes: Any, lines: dict[str, Any], path: Path) -> None:
    _, cell, shape = path.stem.split(" ")

    class Ours(nn.Module):
        def setup(self) -> None:
            both = shape == "both"
            self.layers = [
                nn.Bidirectional(nn.RNN(makes[cell](HIDDEN)), nn.RNN(makes[cell](HIDDEN)))
                if both else nn.RNN(makes[cell](HIDDEN)) for _ in range(2)
            ]  # fmt: skip

        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    write(f"{path.stem}.ran", out=Ours().apply(lines["read_linen"](path), X))


# Flax nnx


def nnx_side(lines: dict[str, Any]) -> None:
    from flax import nnx

    makes = {"lstm": nnx.LSTMCell, "optimized": nnx.OptimizedLSTMCell, "gru": nnx.GRUCell, "rnn": nnx.SimpleCell}

    def randomised(model: Any) -> Any:
        state = nnx.state(model, nnx.Param)
        for _, leaf in nnx.to_flat_state(state):
            leaf[...] = drawn(leaf[...].shape)
        nnx.update(model, state)
        return model

    for cell, make in makes.items():
        model = randomised(nnx.RNN(make(INPUTS, HIDDEN, rngs=nnx.Rngs(0))))
        lines["write_nnx"](model, FOLDER / f"nnx {cell}.npz")
        kind = "lstm" if cell == "optimized" else cell
        carry, out = model(X, initial_carry=flax_carry(kind, 0), return_carry=True)
        write(f"nnx {cell}.out", out=out, **carried(carry, flax=True))

    class Whole(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.embed = nnx.Embed(7, 4, rngs=rngs)
            first = [nnx.RNN(nnx.LSTMCell(4, HIDDEN, rngs=rngs)) for _ in range(2)]
            second = nnx.RNN(nnx.LSTMCell(2 * HIDDEN, HIDDEN, rngs=rngs))
            self.layers = nnx.List([nnx.Bidirectional(*first), second])
            self.head = nnx.Linear(HIDDEN, 2, rngs=rngs)

        def __call__(self, ids: Any) -> Any:
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x[:, -1])

    model = randomised(Whole(nnx.Rngs(0)))
    lines["write_nnx"](model, FOLDER / "nnx whole.npz")
    write("nnx whole.out", out=model(IDS))
    for path in sorted((FOLDER / "ours").glob("flax-nnx *.npz")):
        _, cell, shape = path.stem.split(" ")
        both, layers = shape == "both", []
        for number in range(2):
            width = INPUTS if number == 0 else HIDDEN * (1 + both)
            cells = [nnx.RNN(makes[cell](width, HIDDEN, rngs=nnx.Rngs(0))) for _ in range(1 + both)]
            layers.append(nnx.Bidirectional(*cells) if both else cells[0])
        holder = nnx.Sequential(*layers)
        lines["read_nnx"](holder, path)
        write(f"{path.stem}.ran", out=holder(X))


# Equinox


def equinox_side(lines: dict[str, Any]) -> None:
    import equinox as eqx
    import jax

    makes = {"lstm": eqx.nn.LSTMCell, "gru": eqx.nn.GRUCell}

    def scan(cell: Any, x: Any, state: Any) -> Any:
        outs = []
        for t in range(x.shape[1]):
            state = jax.vmap(cell)(x[:, t], state)
            outs.append(state[0] if isinstance(state, tuple) else state)
        return np.stack(outs, 1), state

    def start(cell: str, number: int = 0) -> Any:
        return (H[number], C[number]) if cell == "lstm" else H[number]

    for cell, make in makes.items():
        for bias in (True, False):
            model = make(INPUTS, HIDDEN, use_bias=bias, key=jax.random.key(1))
            name = f"equinox {cell}{'' if bias else ' unbiased'}"
            lines["write_equinox"](model, FOLDER / f"{name}.npz")
            out, state = scan(model, X, start(cell))
            write(f"{name}.out", out=out, **carried(state))
    for path in sorted((FOLDER / "ours").glob("equinox *.npz")):
        _, cell, shape = path.stem.split(" ")
        both = shape == "both"
        names = ("forward", "backward") if both else ("",)
        model: dict[str, Any] = {"layers": []}
        for number in range(2):
            width = INPUTS if number == 0 else HIDDEN * len(names)
            cells = {name: makes[cell](width, HIDDEN, key=jax.random.key(0)) for name in names}
            model["layers"].append(cells if both else cells[""])
        model = lines["read_equinox"](model, path)
        x: Any = X
        zero = np.zeros((4, HIDDEN), np.float32)
        for layer in model["layers"]:
            begin = (zero, zero) if cell == "lstm" else zero
            if both:
                forward, backward = scan(layer["forward"], x, begin)[0], scan(layer["backward"], x[:, ::-1], begin)[0]
                x = np.concatenate([forward, backward[:, ::-1]], -1)
            else:
                x = scan(layer, x, begin)[0]
        write(f"{path.stem}.ran", out=x)


# Haiku


def haiku_side(lines: dict[str, Any]) -> None:
    import haiku as hk
    import jax

    makes = {
        "lstm": hk.LSTM,
        "gru": hk.GRU,
        "relu": hk.VanillaRNN,
        "relu-one-bias": lambda size: hk.VanillaRNN(size, double_bias=False),
    }
    for cell, make in makes.items():
        state = hk.LSTMState(H[0], C[0]) if cell == "lstm" else H[0]

        def unroll(x: Any, make: Any = make, state: Any = state) -> Any:
            return hk.dynamic_unroll(make(HIDDEN), x, state, time_major=False)

        run = hk.without_apply_rng(hk.transform(unroll))
        params = jax.tree.map(lambda a: drawn(a.shape), run.init(jax.random.key(0), X))
        lines["write_haiku"](params, FOLDER / f"haiku {cell}.npz")
        out, last = run.apply(params, X)
        last = tuple(last) if cell == "lstm" else last
        write(f"haiku {cell}.out", out=out, **carried(last))

    def whole(ids: Any) -> Any:
        core = hk.DeepRNN([hk.LSTM(HIDDEN), hk.LSTM(2)])
        out, _ = hk.dynamic_unroll(core, hk.Embed(7, 4)(ids), core.initial_state(4), time_major=False)
        return hk.Linear(3)(out)

    run = hk.without_apply_rng(hk.transform(whole))
    params = jax.tree.map(lambda a: drawn(a.shape), run.init(jax.random.key(0), IDS))
    lines["write_haiku"](params, FOLDER / "haiku whole.npz")
    write("haiku whole.out", out=run.apply(params, IDS))
    for path in sorted((FOLDER / "ours").glob("haiku *.npz")):
        _, cell, shape = path.stem.split(" ")

        def ours(x: Any, cell: str = cell, shape: str = shape) -> Any:
            for _ in range(2):
                names = ("forward_", "backward_") if shape == "both" else (None,)
                base = {"relu": "vanilla_rnn"}.get(cell, cell)
                cores = [
                    makes[cell](HIDDEN) if n is None else type(makes[cell](HIDDEN))(HIDDEN, name=n + base)
                    for n in names
                ]
                halves = []
                for number, core in enumerate(cores):
                    given = x[:, ::-1] if number else x
                    out, _ = hk.dynamic_unroll(core, given, core.initial_state(4), time_major=False)
                    halves.append(out[:, ::-1] if number else out)
                x = jax.numpy.concatenate(halves, -1)
            return x

        run = hk.without_apply_rng(hk.transform(ours))
        write(f"{path.stem}.ran", out=run.apply(lines["read_haiku"](path), X))


def verified(folder: Path) -> None:
    """What `--verify` finds for each of our files."""
    from unrolled import convert

    found = {}
    for path in sorted((folder / "ours").glob("* two.npz")):
        framework, cell, _ = path.stem.split(" ")
        options = {"variant": "optimized"} if cell == "optimized" else {}
        module = convert.load(path, framework, batch_first=True, verify=True, **options)
        found[path.stem] = module.conversion.verified[framework]
    np.savez(folder / "verified.npz", **{name: np.float64(value) for name, value in found.items()})


def main() -> None:
    lines = page()
    for side in (linen, nnx_side, equinox_side, haiku_side):
        side(lines)
    verified(FOLDER)


if __name__ == "__main__":
    main()
