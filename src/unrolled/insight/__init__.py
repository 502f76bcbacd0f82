"""Seeing inside a recurrent network: gates, states, gradients through time, what an answer rests on, and a verdict.

    gates       gates, hidden and cell states at every step; saturation, half-lives
    flow        the norm of dL_t/dh_k for every pair of steps
    jacobians   products of Jacobians, in float64 with the scale kept apart; bounds holds their bound
    verdict     vanishing, exploding or healthy, with the evidence and what helps
    non_finite  the first NaN or infinity: step, layer, row, tensor
    attribution gradient, gradient × input, integrated gradients, occlusion
    attention   the weights of attention, where there is any
    summaries   the cheap looks that training writes to metrics.jsonl
    describe    all of it as JSON; packing: tables as bytes, and words for what is no number

Any model with layers of this library or of torch.nn will do. It is copied, and its layers are stepped by the equations
(`stepping`); what comes out must be what the layers' own code computes, to 1e-5, or the look is refused.

The JSON of an inspection
-------------------------
`unrolled.training.inspection.inspect(run, items)`, `unrolled inspect RUN --json`. Written by Python alone; a page draws
it. Numbers are floats of six digits, or one of the words "nan", "inf", "-inf". A HEAT is a table as bytes; see
`packing` for its coding. An item's steps count from 0. A PLACE is "name" (of the module in the model), "layer",
"direction" (0 forward, 1 backward), "kind" (rnn_tanh, rnn_relu, lstm, gru_after, gru_before).

    format        1; a reader refuses a larger one
    kind          "inspection"
    version       of unrolled
    task, cell    "classify", …; "lstm", …
    recipe        every field of the run
    parameters    [{name, shape, count, blocks}]; blocks: the gates whose rows follow each other, or null
    weights       [PLACE + {largest: {gate: σ_max of U}, radius: {gate: spectral radius of U, "nan" if not square}}]
    counted       items behind `layers`
    layers        [PLACE + {thresholds: [low, high],
                      gates: {gate: {count: steps, left: [steps below, a number a unit], right: [steps above],
                                     histogram: {from, to, counts: [20 bins]}}},     gate "h" for an RNN
                      half_life: {gate: "f" or "z", units: [steps]}}]                absent for an RNN
                  fine: a gate also has edges: [the bins' 21 edges], below: [[steps below each edge] a unit] and, unless
                  it is what remains, above: [[steps above each edge] a unit]
    jacobians     {item, layers: [PLACE + {path: "state" | "cell", lags: [k], largest: [log10 σ_max of the product],
                      median: [log10; "nan" where rounding hides it], frobenius: [log10], bound: [log10],
                      per_step: [geometric mean of a step's factor], capped}]}
    flow          {item, layers: [PLACE + {targets: [t], cuts: [the gradient is cut before these steps], skipped,
                      log10: HEAT (targets, steps) of log10 ‖dL_t/dh_k‖, by_lag: [mean log10 at lag 0, 1, …]}]}
                  fine: also exact, the same as float32 (up to 16,384 cells)
                  A cell is empty at padding and where k cannot reach t, -inf where the gradient is exactly 0 (cut).
                  Of an encoder the steps are the source's; by_lag is then "nan".
    verdicts      [{title, word: "healthy" | "too short" | "vanishing" | "exploding" | "not finite",
                      slope (powers of ten a step), factor, span, memory (steps until 1 % is left),
                      evidence: [{key, text, values}], remedies: [{key, text, values}]}]
                  Keys of evidence: slope, memory, bound, cell_path, half_life, saturated, clipping, chunk. Keys of
                  remedies: gated_cell, init, forget_bias, shorter_path, residual, clip, learning_rate, chunk, scale.
    verdict       the one of these that needs attention most; null without a layer
    clipping      {limit, seen, touched: [steps], largest} of the logged steps; null without metrics.jsonl
    non_finite    {what: "not finite" | "large", where, module, tensor, value, layer, direction, step, row,
                      large_since, anomaly, text}; null where all is well
    items         at most 3: {where, text, tokens (null for features), unknown: [steps], steps, cut: steps left out,
                      output_tokens (of an encoder–decoder, else null),
                      answers: {kind: "class" | "tag" | "token", top: [[[name, probability], …3], … a step],
                                right: [name or null] or null},
                      states: [PLACE + {units: [numbers], h: HEAT (units, steps), c: HEAT, gates: {gate: HEAT}}],
                      fine: h and c have two bytes a number
                      attributions: [{step (null: the whole), answer, methods: [{method, scores: [a step], value,
                                baseline, and of integrated_gradients sum, gap, nodes}]}],
                      attention: [{name, kind: "pooling" | "source", weights: HEAT (queries, positions)}]}
    warning       what must stand beside gradient-based scores
    training      the looks of metrics.jsonl, at most 60: [{event: "insight", epoch, step, gradients: {part: norm},
                      layers: [as `summaries.summary`]}]
    notes         the caps that were reached, in words

Caps: 512 steps of an item, 32 items counted, 3 shown, 256 units a layer (those of largest variance) and 900 kB of
states in all, 64 targets, 100 lags, 4 output steps explained.
"""

from unrolled.insight.attention import Weights, attention
from unrolled.insight.attribution import Attribution, attribute
from unrolled.insight.flow import Flow, gradient_flow
from unrolled.insight.gates import Saturation, gates, half_life, memory, saturation
from unrolled.insight.jacobians import Products, jacobians
from unrolled.insight.non_finite import Found, find_non_finite
from unrolled.insight.stepping import Trace
from unrolled.insight.verdict import Clipping, Finding, Verdict, judge, worst

__all__ = [
    "Attribution",
    "Clipping",
    "Finding",
    "Flow",
    "Found",
    "Products",
    "Saturation",
    "Trace",
    "Verdict",
    "Weights",
    "attention",
    "attribute",
    "find_non_finite",
    "gates",
    "gradient_flow",
    "half_life",
    "jacobians",
    "judge",
    "memory",
    "saturation",
    "worst",
]
