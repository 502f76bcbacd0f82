"""Keras 3 itself, on its torch backend, against what we read from its files and write into them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oracles.frameworks import assert_bits, assert_same, features, layer_of, states, weights
from unrolled import convert
from unrolled.convert import ConvertError, Stack

with warnings.catch_warnings():  # Keras's own imports warn, by the versions of what they import
    warnings.simplefilter("ignore")
    import keras

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:keras", "ignore::DeprecationWarning:keras")
L = keras.layers
RNG = np.random.default_rng(8)
IDS = np.array([[1, 2, 3, 0, 0, 0], [4, 5, 6, 1, 2, 3], [3, 1, 0, 0, 0, 0]])


def recurrent(cell: str, **options: Any) -> Any:
    return {"rnn": L.SimpleRNN, "lstm": L.LSTM, "gru": L.GRU}[cell](3, **options)


def model_of(*layers: Any, ids: bool = False) -> Any:
    """A Sequential model with random weights, biases included."""
    made = keras.Sequential([keras.Input((None,), dtype="int32") if ids else keras.Input((None, 5)), *layers])
    for variable in made.weights:
        if "seed" not in variable.path:
            variable.assign(RNG.normal(size=variable.shape).astype("float32") * 0.5)
    return made


def run(model: Any, x: np.ndarray) -> list[np.ndarray]:
    with torch.no_grad():
        out = model(x)
    return [keras.ops.convert_to_numpy(one) for one in (out if isinstance(out, list | tuple) else [out])]


def ours(module: Any, x: np.ndarray) -> list[Any]:
    with torch.no_grad():
        out = module(torch.from_numpy(x))
    return list(out) if isinstance(out, tuple) else [out]


def both_ways(model: Any, x: np.ndarray, folder: Path) -> Any:
    """Keras's file through us and back: equal outputs both times, and equal weights to the last bit."""
    model.save(folder / "model.keras")
    module = convert.load(folder / "model.keras")
    assert_same(ours(module, x), run(model, x))
    convert.save(module, folder / "back.keras")
    again = keras.saving.load_model(folder / "back.keras", compile=False)
    assert_same(run(again, x), run(model, x), tolerance=0)
    kept = [v for v in model.weights if "seed" not in v.path]
    assert_bits(
        {str(n): keras.ops.convert_to_numpy(v) for n, v in enumerate(again.weights)},
        {str(n): keras.ops.convert_to_numpy(v) for n, v in enumerate(kept)},
    )
    return module


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"use_bias": False}, {"go_backwards": True}], ids=["plain", "no bias", "backwards"]
)
def test_one_layer(cell: str, every: bool, options: dict[str, Any], tmp_path: Path) -> None:
    both_ways(model_of(recurrent(cell, return_sequences=every, **options)), features(), tmp_path)


@pytest.mark.parametrize("bias", [True, False])
def test_reset_before_the_product(bias: bool, tmp_path: Path) -> None:
    layer = L.GRU(3, return_sequences=True, reset_after=False, use_bias=bias)
    module = both_ways(model_of(layer), features(), tmp_path)
    assert module.blocks[0].layer.reset_after is False


def test_relu(tmp_path: Path) -> None:
    both_ways(model_of(L.SimpleRNN(3, activation="relu", return_sequences=True)), features(), tmp_path)


@pytest.mark.parametrize("merge", ["concat", "sum", "mul", "ave", None])
@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_bidirectional_merges(merge: str | None, every: bool, cell: str, tmp_path: Path) -> None:
    layer = L.Bidirectional(recurrent(cell, return_sequences=every), merge_mode=merge)
    both_ways(model_of(layer), features(), tmp_path)


@pytest.mark.parametrize("every", [True, False])
def test_bidirectional_that_reads_backwards_first(every: bool, tmp_path: Path) -> None:
    forward = L.LSTM(3, return_sequences=every, go_backwards=True)
    layer = L.Bidirectional(forward, backward_layer=L.LSTM(3, return_sequences=every))
    both_ways(model_of(layer), features(), tmp_path)


def test_a_whole_model(tmp_path: Path) -> None:
    model = model_of(
        L.Embedding(7, 4), L.Dropout(0.3), L.Bidirectional(L.LSTM(3, return_sequences=True)),
        L.GRU(2, return_sequences=True, dropout=0.2), L.SimpleRNN(5), L.Dense(4, activation="relu"),
        L.Dense(2, activation="softmax"), ids=True,
    )  # fmt: skip
    module = both_ways(model, IDS, tmp_path)
    assert isinstance(module, Stack)
    assert any("dropout" in note for note in module.conversion.notes)


def test_a_functional_chain_and_a_time_distributed_head(tmp_path: Path) -> None:
    x = keras.Input((None, 5))
    y = L.TimeDistributed(L.Dense(2))(L.GRU(3, return_sequences=True)(x))
    model = keras.Model(x, y)
    for variable in model.weights:
        variable.assign(RNG.normal(size=variable.shape).astype("float32"))
    both_ways(model, features(), tmp_path)


def test_an_activation_layer_after_a_dense_one(tmp_path: Path) -> None:
    model = model_of(L.LSTM(3), L.Dense(4), L.Activation("tanh"), L.Dense(2), L.Softmax())
    model.save(tmp_path / "model.keras")
    assert_same(ours(convert.load(tmp_path / "model.keras"), features()), run(model, features()))


@pytest.mark.parametrize("every", [True, False])
def test_the_mask_of_an_embedding(every: bool, tmp_path: Path) -> None:
    """Keras holds the last output over the padding, or zeros inside Bidirectional: ours must leave the same there."""
    plain = model_of(
        L.Embedding(7, 4, mask_zero=True), L.LSTM(3, return_sequences=True), L.GRU(3, return_sequences=every),
        L.Dense(2), ids=True,
    )  # fmt: skip
    both_ways(plain, IDS, tmp_path)
    both = model_of(
        L.Embedding(7, 4, mask_zero=True), L.Bidirectional(L.GRU(3, return_sequences=every)), L.Dense(2), ids=True
    )
    both_ways(both, IDS, tmp_path)
    with pytest.raises(ValueError, match="mask"):  # a hole: never summed to a length
        convert.load(tmp_path / "model.keras")(torch.tensor([[1, 0, 2]]))


CELLS = ["rnn", "relu", "lstm", "gru", "gru before"]


@pytest.mark.parametrize(
    ("cell", "shape"),
    [
        *((cell, "both ways") for cell in [*CELLS, "gru single", "lstm single"]),
        *((cell, "no bias") for cell in CELLS),
        ("lstm", "two layers"),
        ("gru", "one"),
    ],
)
def test_our_layers_in_keras(cell: str, shape: str, tmp_path: Path) -> None:
    layer = layer_of(cell, shape)
    convert.save(layer, tmp_path / "layer.keras")
    model = keras.saving.load_model(tmp_path / "layer.keras", compile=False)
    with torch.no_grad():
        want = layer(torch.from_numpy(features()))[0]
    assert_same(run(model, features()), [want])


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "gru before"])
@pytest.mark.parametrize("shape", ["one", "both ways"])
def test_weights_alone(cell: str, shape: str, tmp_path: Path) -> None:
    """.weights.h5 into a model of Keras's own, and out of it: a layer that is called with a state."""
    layer = layer_of(cell, shape)
    convert.save(layer, tmp_path / "layer.weights.h5")
    make = {"rnn": L.SimpleRNN, "lstm": L.LSTM, "gru": L.GRU, "gru before": L.GRU}[cell]
    options = {"reset_after": cell == "gru"} if "gru" in cell else {}
    inner = [make(3, return_sequences=True, **options) for _ in range(layer.num_layers)]
    model = model_of(*[L.Bidirectional(one) if layer.bidirectional else one for one in inner])
    model.load_weights(tmp_path / "layer.weights.h5")
    with torch.no_grad():
        assert_same(run(model, features()), [layer(torch.from_numpy(features()))[0]])
        model.save_weights(tmp_path / "again.weights.h5")
        back = convert.load(tmp_path / "again.weights.h5", nonlinearity="tanh" if cell == "rnn" else None)
        x, hx = torch.from_numpy(features()), states(layer)
        assert_same(back(x, hx), layer(x, hx))
    convert.save(back, tmp_path / "third.weights.h5")
    third = convert.load(tmp_path / "third.weights.h5", nonlinearity="tanh" if cell == "rnn" else None)
    assert_bits(weights(third), weights(back))


def test_float64(tmp_path: Path) -> None:
    layer = layer_of("gru", "both ways").double()
    convert.save(layer, tmp_path / "layer.keras")
    model = keras.saving.load_model(tmp_path / "layer.keras", compile=False)
    x = features().astype(np.float64)
    with torch.no_grad():
        assert_same(run(model, x), [layer(torch.from_numpy(x))[0]], tolerance=1e-12)


# what cannot be exact


@pytest.mark.parametrize(
    ("layers", "named"),
    [
        (lambda: [L.LSTM(3, recurrent_activation="hard_sigmoid")], "recurrent_activation: expected sigmoid"),
        (lambda: [L.LSTM(3, activation="relu")], "activation: expected tanh"),
        (lambda: [L.GRU(3, activation="softsign")], "activation: expected tanh"),
        (lambda: [L.SimpleRNN(3, activation="sigmoid")], "activation: expected tanh or relu"),
        (lambda: [L.Bidirectional(L.LSTM(3, recurrent_activation="hard_sigmoid"))], "recurrent_activation"),
        (lambda: [L.LSTM(3, return_sequences=True), L.LayerNormalization()], "LayerNormalization"),
        (lambda: [L.LSTM(3), L.Dense(2, activation="gelu")], "activation: expected one of"),
        (lambda: [L.Dense(2)], "at least one RNN, LSTM or GRU"),
        (lambda: [L.RNN(L.LSTMCell(3))], "plain stack"),
    ],
)
def test_what_we_cannot_compute_is_refused_by_name(layers: Any, named: str, tmp_path: Path) -> None:
    model_of(*layers()).save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match=named):
        convert.load(tmp_path / "model.keras")


def test_a_stateful_layer_must_be_accepted(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input(batch_shape=(2, None, 5)), L.LSTM(3, stateful=True)])
    model.save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match=r"stateful: expected False.*accept='stateful'"):
        convert.load(tmp_path / "model.keras")
    module = convert.load(tmp_path / "model.keras", accept="stateful")
    assert any("stateful" in note for note in module.conversion.notes)


def test_a_branch_is_refused(tmp_path: Path) -> None:
    x = keras.Input((None, 5))
    a = L.LSTM(3, return_sequences=True)(x)
    model = keras.Model(x, L.Concatenate()([a, L.LSTM(3, return_sequences=True)(x)]))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match="a chain"):
        convert.load(tmp_path / "model.keras")


def refused(inputs: Any, outputs: Any, folder: Path) -> str:
    """The message with which a functional model is refused."""
    keras.Model(inputs, outputs).save(folder / "functional.keras")
    with pytest.raises(ConvertError) as caught:
        convert.load(folder / "functional.keras")
    return str(caught.value)


def test_what_a_call_passes_beside_its_input_is_refused(tmp_path: Path) -> None:
    x, state = keras.Input((None, 5)), np.full((3, 3), 0.7, np.float32)
    gru = L.GRU(3, name="g")(x, initial_state=keras.ops.convert_to_tensor(state))
    message = refused(x, gru, tmp_path)
    assert "g: initial_state: expected a call with the input alone, found a tensor" in message
    assert "pass the state as hx" in message
    mask = keras.ops.convert_to_tensor(np.arange(6)[None].repeat(3, 0) < 4)
    assert "h: mask: expected" in refused(x, L.GRU(3, name="h")(x, mask=mask), tmp_path)
    steps = L.LSTM(3, return_sequences=True)(x)
    message = refused(x, L.GRU(2)(L.Dropout(0.5, name="d")(steps, training=True)), tmp_path)
    assert "d: training: expected a call with the input alone, found True" in message
    assert "found GetItem" in refused(x, L.Dense(2)(steps[:, -1]), tmp_path)
    given = keras.Input((3,))
    message = refused([x, given], L.GRU(3, name="k")(x, initial_state=given), tmp_path)
    assert "a chain" in message or "k: initial_state" in message


def test_a_call_that_says_the_usual_is_read(tmp_path: Path) -> None:
    x = keras.Input((None, 5))
    steps = L.LSTM(3, return_sequences=True)(x, training=False, mask=None, initial_state=None)
    both_ways(keras.Model([x], [L.Dense(2)(L.Dropout(0.5)(steps, training=False))]), features(), tmp_path)


def test_some_of_the_outputs_are_not_the_model(tmp_path: Path) -> None:
    x = keras.Input((None, 5))
    steps = L.LSTM(3, return_sequences=True, name="steps")(x)
    final = L.Dense(2, name="final")(steps)
    message = refused(x, [steps, final], tmp_path)
    assert "outputs: expected what final gives, whole: final[0], found steps[0], final[0]" in message
    assert "a model for each output" in message
    assert "found final[0], steps[0]" in refused(x, {"a": final, "b": steps}, tmp_path)


def test_a_pair_of_directions_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    x = keras.Input((None, 5))
    pair = L.Bidirectional(L.LSTM(3), merge_mode=None, name="pair")(x)
    both_ways(keras.Model(x, pair), features(), tmp_path)
    for some in (pair[0], pair[1], [pair[1], pair[0]]):
        assert "expected what pair gives, whole: pair[0], pair[1]" in refused(x, some, tmp_path)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_zeros_for_a_row_that_ends_in_padding_are_refused(cell: str, tmp_path: Path) -> None:
    """With return_sequences=False Keras gives 0 there, where ours gives the last valid step."""
    layer = recurrent(cell, zero_output_for_mask=True, name="final")
    model = model_of(L.Embedding(7, 4, mask_zero=True), layer, ids=True)
    assert not run(model, IDS)[0][0].any()
    model.save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match=r"final: zero_output_for_mask: expected False.*Set zero_output_for_mask"):
        convert.load(tmp_path / "model.keras")


@pytest.mark.parametrize("final", [False, True])
def test_zeros_in_the_padding_of_every_step_are_ours_too(final: bool, tmp_path: Path) -> None:
    steps = L.GRU(3, return_sequences=True, zero_output_for_mask=True)
    both = L.Bidirectional(L.GRU(3, zero_output_for_mask=True))
    model = model_of(L.Embedding(7, 4, mask_zero=True), steps, *[both] * final, L.Dense(2), ids=True)
    both_ways(model, IDS, tmp_path)


def test_verify_draws_rows_with_padding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands past a row's end is compared: a stack that leaves something else there is found."""
    model = model_of(L.Embedding(7, 4, mask_zero=True), L.LSTM(3, return_sequences=True), L.Dense(2), ids=True)
    model.save(tmp_path / "model.keras")
    assert convert.load(tmp_path / "model.keras", verify=True).conversion.verified["keras"] < 1e-6
    monkeypatch.setattr("unrolled.convert.stack.hold_last", lambda out, *_, **_axes: out)
    with pytest.raises(ConvertError, match="--verify"):
        convert.load(tmp_path / "model.keras", verify=True)


BEFORE = {
    "first": lambda: [L.Dense(4, activation="tanh"), L.LSTM(3), L.Dense(4, activation="relu"), L.Dense(2)],
    "of one width": lambda: [L.Dense(5), L.LSTM(5, return_sequences=True)],
    "between": lambda: [L.LSTM(5, return_sequences=True), L.Dense(5, name="middle"), L.GRU(5), L.Dense(5)],
    "between, narrow": lambda: [L.LSTM(3, return_sequences=True), L.TimeDistributed(L.Dense(2)), L.GRU(4)],
}


@pytest.mark.parametrize("place", BEFORE)
def test_a_dense_layer_before_a_recurrent_one(place: str, tmp_path: Path) -> None:
    """Keras and our own files hold it; the others name it, whether the widths fit or not."""
    module = both_ways(model_of(*BEFORE[place]()), features(), tmp_path)
    convert.save(module, tmp_path / "own.safetensors", "unrolled")
    assert_same(ours(convert.load(tmp_path / "own.safetensors"), features()), ours(module, features()), tolerance=0)
    assert convert.load(tmp_path / "model.keras", verify=True).conversion.verified["keras"] < 1e-6
    for name, target in (("m.onnx", None), ("m.npz", "haiku"), ("m.pt", "torch"), ("m.weights.h5", None)):
        with pytest.raises(ConvertError, match="expected dense layers after the last recurrent one") as caught:
            convert.convert(tmp_path / "model.keras", tmp_path / name, write=target)
        assert "unrolled, which hold it" in str(caught.value)
        assert "array" not in str(caught.value)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float16"])
def test_half_precision_is_noted(policy: str, tmp_path: Path) -> None:
    options = {"dtype": policy, "recurrent_initializer": "glorot_uniform"}  # torch has no orthogonal start in halves
    both = L.Bidirectional(L.LSTM(3, return_sequences=True, name="both", **options))
    model = model_of(both, L.GRU(2, name="top", **options), L.Dense(2))
    model.save(tmp_path / "model.keras")
    notes = convert.load(tmp_path / "model.keras").conversion.notes
    half = policy.removeprefix("mixed_")
    for name in ("forward_both", "backward_both", "top"):
        assert sum(note.startswith(f"{name}: Keras computes it in {half} (policy {policy})") for note in notes) == 1
    assert not any(note.startswith("dense") for note in notes)


def test_a_difference_of_half_precision_is_explained(tmp_path: Path) -> None:
    model_of(L.LSTM(3, dtype="mixed_bfloat16", name="low")).save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match=r"--verify: expected.*low: Keras computes it in bfloat16"):
        convert.load(tmp_path / "model.keras", verify=True)


def test_bfloat16_weights_and_a_quantized_policy_are_refused(tmp_path: Path) -> None:
    model_of(L.LSTM(3, dtype="bfloat16", name="low")).save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match=r"layers/lstm/cell/vars/0: expected numbers.*bfloat16: save the model with"):
        convert.load(tmp_path / "model.keras")
    model = model_of(L.LSTM(3), L.Dense(2, name="head"))
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match=r"int8"):
        convert.load(tmp_path / "model.keras")


def test_weights_alone_say_what_was_taken(tmp_path: Path) -> None:
    """go_backwards is in no file of weights: the reader names it, and what else the default is."""
    backwards = model_of(L.GRU(3, go_backwards=True, return_sequences=True))
    backwards.save_weights(tmp_path / "one.weights.h5")
    (note,) = convert.load(tmp_path / "one.weights.h5").conversion.notes
    for word in ("go_backwards=False", "return_sequences=True", "activation='tanh'", "recurrent_activation='sigmoid'"):
        assert word in note
    assert ".keras file" in note
    assert not any(word in note for word in ("merge_mode", "mask_zero", "Dense"))
    model_of(
        L.Embedding(7, 4), L.Bidirectional(L.SimpleRNN(3)), L.Dense(2), ids=True
    ).save_weights(tmp_path / "whole.weights.h5")  # fmt: skip
    (note,) = convert.load(tmp_path / "whole.weights.h5", nonlinearity="tanh", head="last").conversion.notes
    for word in ("go_backwards=False", "merge_mode='concat'", "mask_zero=False", "activation='linear' in Dense"):
        assert word in note
    assert not any(word in note for word in ("return_sequences", "recurrent_activation"))
    assert not convert.save(layer_of("gru"), tmp_path / "ours.weights.h5").notes  # a writer knows


def test_a_mask_before_go_backwards_is_refused(tmp_path: Path) -> None:
    model = model_of(
        L.Embedding(7, 4, mask_zero=True), L.LSTM(3, go_backwards=True, return_sequences=True), L.Dense(2), ids=True
    )
    model.save(tmp_path / "model.keras")
    with pytest.raises(ConvertError, match="go_backwards"):
        convert.load(tmp_path / "model.keras")


def test_weights_alone_must_be_told_what_they_do_not_say(tmp_path: Path) -> None:
    model_of(L.SimpleRNN(3)).save_weights(tmp_path / "rnn.weights.h5")
    with pytest.raises(ConvertError, match=r"nonlinearity='tanh'"):
        convert.load(tmp_path / "rnn.weights.h5")
    model_of(L.GRU(3, use_bias=False)).save_weights(tmp_path / "gru.weights.h5")
    with pytest.raises(ConvertError, match=r"reset_after=True"):
        convert.load(tmp_path / "gru.weights.h5")
    assert convert.load(tmp_path / "gru.weights.h5", reset_after=False).reset_after is False
    model_of(L.LSTM(3), L.Dense(2)).save_weights(tmp_path / "head.weights.h5")
    with pytest.raises(ConvertError, match="head='every' or head='last'"):
        convert.load(tmp_path / "head.weights.h5")
    model_of(L.LSTM(3, return_sequences=True), L.GRU(3)).save_weights(tmp_path / "two.weights.h5")
    with pytest.raises(ConvertError, match="order"):
        convert.load(tmp_path / "two.weights.h5")
    convert.load(tmp_path / "two.weights.h5", order=("layers/lstm", "layers/gru"))


def test_a_bias_with_the_wrong_number_of_rows(tmp_path: Path) -> None:
    """Half of a double bias must not be used in silence."""
    import h5py

    model_of(L.GRU(3)).save_weights(tmp_path / "gru.weights.h5")
    with h5py.File(tmp_path / "gru.weights.h5", "r+") as file:
        group = file["layers/gru/cell/vars"]
        del group["2"]
        group["2"] = np.ones((2, 8), np.float32)
    with pytest.raises(ConvertError, match=r"bias: expected \(2, 9\)"):
        convert.load(tmp_path / "gru.weights.h5")


def test_verify_runs_keras(tmp_path: Path) -> None:
    report = convert.save(layer_of("gru"), tmp_path / "gru.keras", verify=True)
    assert report.verified["keras"] < 1e-6
    model_of(L.Embedding(7, 4), L.LSTM(3), L.Dense(2), ids=True).save(tmp_path / "model.keras")
    assert convert.load(tmp_path / "model.keras", verify=True).conversion.verified["keras"] < 1e-6
