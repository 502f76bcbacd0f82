"""The report of a run: `report.html` in every run folder, written when training ends and by `unrolled inspect --open`.

    make       everything as JSON                       page     report.html, the notebook's view of it
    curves     losses, scores, rates, norms             looks    gates and gradients while it trained
    answers/   errors and samples, a file a task        findings what a reader should look at
    plots      the same as PNG pictures (extra "plot")

The JSON of a report
--------------------
Written by Python alone; a page draws it. CURVE: see `curves.curve`. HEAT: see `unrolled.insight.packing`.

    format       1               kind     "report"          version  of unrolled
    run          the folder's name                          task, cell
    recipe       every field of the run that has a meaning for it
    changed      the names of those that differ from the task's default
    seed         of the recipe
    versions     {unrolled, python, torch, numpy, system}
    threads      of PyTorch when the report was made
    engine       what runs the recurrent layers: "native", "equations", "torch"
    result       {data, items, unit, metrics, baselines, rows: [[metric, title, value, [baseline's value or null]]],
                  notes, published: [[what, figure, source]]} of the test part (or the validation part); null before
                  the end of a run
    score        {name, value, more_is_better} what early stopping looked at
    training     {steps, epochs, best_epoch, seconds, parameters}
    curves       {loss, learning_rate, gradient_norm, clipped_norm: CURVE over optimizer steps, or null}
    clip         the limit of the norm, or null
    epochs       see `curves.epochs_of`
    looks        see `looks.looks_json`; null where there is none
    parameters   [{name, shape, count, blocks, dtype, finite, smallest, largest, deviation}]; `blocks` are the gates
                 whose rows follow each other: [{gate, rows: [from, to), norm, deviation}] or null
    weights      as in an inspection: the largest singular value and the spectral radius of each gate's block
    errors       by task, its "kind" first
                   labels, tags  {names, counts, scored, right, by_name, words: of tags [{word, right, said, count}]}
                   tokens        {scored, tokens: [{token, count, mean, share}], positions: [{from, to, count, mean}]}
                   edits         {scored, total, edits: [{right, said, count}], lengths: [{from, to, items,
                                  exact_match, token_error_rate}]}
                   steps         {scored, levels, steps: [{ahead, count, mae, bias, coverage}],
                                  series: [{id, forecasts, mae, relative}]}
    samples      by task: label, tags, text, pair, forecast
    findings     [{key, level: "warning" | "note", text, values}]
    notes        what was left out, in words
    seconds      that making the report took
"""

from unrolled.training.reporting.make import FORMAT, make
from unrolled.training.reporting.page import notebook, rewrite, write

__all__ = ["FORMAT", "make", "notebook", "rewrite", "write"]
