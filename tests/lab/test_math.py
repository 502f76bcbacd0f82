"""The toy formulas that the page computes itself equal Python's, torch's and exact fractions, to 1e-9."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from lab_pages import LAB

MODULE = (LAB / "src" / "math.js").as_uri()
RANDOM = random.Random(7)
CLOSE = {"rel": 1e-9, "abs": 1e-12}


def javascript(calls: list[tuple[str, list[Any]]]) -> list[Any]:
    """What math.js returns for [(function, arguments), …]; infinities come as words."""
    program = f"""
        import * as math from {json.dumps(MODULE)};
        const calls = {json.dumps(calls)};
        const word = (key, x) => typeof x === "number" && !Number.isFinite(x) ? String(x) : x;
        console.log(JSON.stringify(calls.map(([name, given]) => math[name](...given)), word));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def scalar_nets() -> list[dict[str, Any]]:
    nets: list[dict[str, Any]] = [{"W": 0.6, "U": 0.8, "b": 0.0, "h0": 0.0, "x": [1, 0.5, -1, 2, 0]}]
    for length in (1, 2, 5, 8):
        draw = [RANDOM.uniform(-2, 2) for _ in range(4 + length)]
        nets.append(dict(zip("WUb", draw, strict=False)) | {"h0": draw[3] / 3, "x": draw[4:]})
    return nets


def test_the_chain_forwards_and_backwards_is_torch_s() -> None:
    nets = scalar_nets()
    chains = javascript([("unrollScalar", [net]) for net in nets])
    backs = javascript([("chainBack", [cells, net["U"]]) for net, cells in zip(nets, chains, strict=True)])
    for net, cells, back in zip(nets, chains, backs, strict=True):
        W, b = (torch.tensor(net[name], dtype=torch.float64) for name in "Wb")
        U = torch.tensor(net["U"], dtype=torch.float64, requires_grad=True)
        states = [torch.tensor(net["h0"], dtype=torch.float64, requires_grad=True)]
        for x in net["x"]:
            states.append(torch.tanh(W * x + U * states[-1] + b))
        assert [cell["h"] for cell in cells] == pytest.approx([float(h.detach()) for h in states[1:]], **CLOSE)
        by_state = torch.autograd.grad(states[-1], [*states[:-1], U], retain_graph=True)
        assert [step["product"] for step in back] == pytest.approx([float(g) for g in by_state[:-1]], **CLOSE)
        assert sum(step["term"] for step in back) == pytest.approx(float(by_state[-1]), **CLOSE)
        for before, after, step in zip(states[:-1], states[1:], back, strict=True):
            (local,) = torch.autograd.grad(after, before, retain_graph=True)
            assert step["factor"] == pytest.approx(float(local), **CLOSE)


def test_powers() -> None:
    pairs = [(c, n) for c in (0.8, 1.5, 1.0, 0.99, 1.01, 2.0, 0.01) for n in (0, 1, 78, 100, 466, 500)]
    for (c, n), log in zip(pairs, javascript([("powerLog10", [c, n]) for c, n in pairs]), strict=True):
        truth = float(n * mpmath.log10(mpmath.mpf(c)))
        assert log == pytest.approx(truth, **CLOSE)
    assert javascript([("powerLog10", [0, 5]), ("powerLog10", [0, 0])]) == ["-Infinity", 0]


# Half of the smallest number (a tie goes to the even one, which is 0), and half a step above the largest.
LOST = {
    "float16": (Fraction(1, 2**25), Fraction(65520)),
    "bfloat16": (Fraction(1, 2**134), Fraction(2**128 - 2**119)),
    "float32": (Fraction(1, 2**150), Fraction(2**128 - 2**103)),
    "float64": (Fraction(1, 2**1075), Fraction(2**1024 - 2**970)),
}


@pytest.mark.parametrize("format_", LOST)
def test_where_a_format_loses_the_product(format_: str) -> None:
    factors = [round(0.02 * step, 2) for step in range(1, 100) if step != 50] + [0.99, 1.01, 0.999]
    zero, infinity = LOST[format_]
    for c, lost in zip(factors, javascript([("firstLost", [c, format_]) for c in factors]), strict=True):
        exact, n = Fraction(c), lost["n"]
        assert lost["to"] == ("zero" if c < 1 else "infinity")

        def gone(power: Fraction) -> bool:
            return power <= zero or power >= infinity

        assert gone(exact**n), (c, n)
        assert not gone(exact ** (n - 1)), (c, n)
    assert javascript([("firstLost", [1, format_]), ("firstLost", [0, format_])]) == [None, {"n": 1, "to": "zero"}]


def test_the_formats_are_those_of_numpy_and_torch() -> None:
    for format_, kind in (("float16", np.float16), ("float32", np.float32)):
        zero, infinity = LOST[format_]
        below, above = float(zero), float(infinity)
        with np.errstate(over="ignore"):
            assert kind(below) == 0
            assert kind(np.nextafter(below, 1)) > 0
            assert np.isinf(kind(above))
            assert not np.isinf(kind(np.nextafter(above, 0)))
    zero, infinity = (torch.tensor(float(x), dtype=torch.float64) for x in LOST["bfloat16"])
    assert zero.bfloat16() == 0
    assert (zero * 1.01).bfloat16() > 0
    assert infinity.bfloat16().isinf()
    assert not (infinity * 0.999).bfloat16().isinf()


def test_multiplying_by_less_than_one_need_not_reach_zero() -> None:
    """The text of V2a: a float32 that is multiplied by 0.8 again and again stops at twice the smallest."""
    x = np.float32(1)
    for _ in range(2000):
        x = np.float32(x * np.float32(0.8))
    assert x == np.float32(2**-148)
    assert f"{x:.1e}" == "2.8e-45"
    spread = np.array([[0, 100.0], [0, 0]]), np.array([[0, 0], [1.0, 0]])
    assert [abs(np.linalg.eigvals(one)).max() for one in spread] == [0, 0]
    assert np.linalg.norm(spread[0] @ spread[1], 2) == 100


def test_half_lives_and_gates() -> None:
    gates = [0.9, 0.99, 0.999, 0.5, 0.05]
    for f, steps in zip(gates, javascript([("halfLife", [f]) for f in gates]), strict=True):
        assert f**steps == pytest.approx(0.5, rel=1e-9)
    for b in (-30.0, -1.0, 0.0, 1.0, 2.0, 30.0):
        (p,) = javascript([("sigmoid", [b])])
        assert p == pytest.approx(float(torch.sigmoid(torch.tensor(b, dtype=torch.float64))), **CLOSE)
    for p in (0.02, 0.5, 0.9, 0.9999):
        (b,) = javascript([("logit", [p])])
        assert b == pytest.approx(float(torch.logit(torch.tensor(p, dtype=torch.float64))), **CLOSE)


def test_one_unit_of_an_lstm_and_of_a_gru() -> None:
    from unrolled.equations import gru_update, lstm_update

    draws = [[RANDOM.uniform(-1, 1) for _ in range(5)] for _ in range(10)]
    for f, i, C, g, o in draws:
        given = {"f": f, "i": i, "C": C, "g": g, "o": o}
        found, path = javascript([("lstmUnit", [given]), ("lstmRepeat", [given, 10])])
        tensors = {name: torch.tensor([[x]], dtype=torch.float64) for name, x in given.items()}
        h, c = lstm_update(tensors["C"], tensors["i"], tensors["f"], tensors["g"], tensors["o"])
        assert found["c"] == pytest.approx(c.item(), **CLOSE)
        assert found["h"] == pytest.approx(h.item(), **CLOSE)
        memory = tensors["C"]
        for step in path[1:]:
            memory = lstm_update(memory, tensors["i"], tensors["f"], tensors["g"], tensors["o"]).c
            assert step == pytest.approx(memory.item(), **CLOSE)
        (mixed,) = javascript([("gruUnit", [{"z": f, "h": C, "n": g}])])
        assert mixed == pytest.approx(gru_update(tensors["C"], tensors["f"], tensors["g"]).item(), **CLOSE)


def test_who_reads_words_in_order() -> None:
    """The bag gives one answer for all orders of three words; the network gives six."""
    orders = [list(order) for order in itertools.permutations(["dog", "bites", "man"])]
    bags = javascript([("bagOfWords", [order]) for order in orders])
    assert np.ptp(bags) < 1e-12
    ends = [states[-1] for states in javascript([("readInOrder", [order]) for order in orders])]
    assert len({round(end, 6) for end in ends}) == 6
    words = {"dog": (1, 0.2), "bites": (0.1, 1), "man": (-0.8, 0.4)}
    h = 0.0
    for word in orders[0]:
        h = math.tanh(0.9 * words[word][0] - 0.7 * words[word][1] + 0.8 * h)
    assert ends[0] == pytest.approx(h, **CLOSE)
