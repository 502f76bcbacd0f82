"""The fields of a recipe that any task may have, each with its panel of the help and what it has a meaning for.

Axes     sizes count units, `chunk` counts time steps, `batch_size` counts sequences (for `lm`: parallel streams).
"""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["RECURRENT", "TASKS", "Fields", "Task", "extra_of", "field"]

Task = Literal["classify", "tag", "lm", "seq2seq", "forecast"]
TASKS: tuple[str, ...] = get_args(Task)
RECURRENT = "rnn lstm gru"


def field(
    panel: str,
    description: str,
    default: Any = ...,
    *,
    tasks: str = "",
    cells: str = "",
    shown: str = "",
    **limits: Any,
) -> Any:
    """A field: the panel of the help it stands in, and the tasks and cells it has a meaning for (all, when empty)."""
    extra = {"panel": panel, "tasks": tasks.split(), "cells": cells.split()} | ({"default": shown} if shown else {})
    return Field(default, description=description, json_schema_extra=cast(Any, extra), **limits)


def extra_of(fields: Fields, name: str) -> dict[str, Any]:
    """panel, tasks and cells of a field."""
    return cast(dict[str, Any], type(fields).model_fields[name].json_schema_extra)


class Fields(BaseModel):
    """Data, model, training and the run."""

    model_config = ConfigDict(defer_build=True)  # the checks are built once, for the whole recipe: 10 ms each

    # data
    task: Task = field(
        "Data", "classify (a label a sequence), tag (a tag a step), lm (the next token), seq2seq (pairs) or forecast."
    )
    data: str = field("Data", "The training file, or the name of an embedded set.")
    valid: str | None = field("Data", "The validation file. None: a part of the data, by hash.", None)
    test: str | None = field("Data", "The test file. None: a part of the data, by hash.", None)
    valid_share: float = field(
        "Data", "The share of the data held out for validation, where no file is named.", 0.1, gt=0, lt=1
    )
    test_share: float = field(
        "Data", "The share of the data held out for the test, where no file is named.", 0.1, ge=0, lt=1
    )
    format: Literal["auto", "csv", "tsv", "jsonl", "parquet", "conll", "conllu", "text", "documents", "ts"] = field(
        "Data",
        "The format of the files; auto goes by the suffix. documents: text, blank lines between documents.",
        "auto",
    )
    text: str = field("Data", "The column with the text.", "text", tasks="classify lm")
    label: str = field("Data", "The column with the label.", "label", tasks="classify")
    tokens: str = field("Data", "The column with the tokens.", "tokens", tasks="classify tag")
    tags: str = field("Data", "The column with the tags.", "tags", tasks="tag")
    features: tuple[str, ...] = field(
        "Data",
        "The columns with the channels (one row a time step), or the one column of nested lists [time][channel].",
        (),
        tasks="classify tag seq2seq",
    )
    source: Literal["sequence", "vector"] = field(
        "Data", "vector: the source of a pair is one vector or image, not a sequence.", "sequence", tasks="seq2seq"
    )
    source_column: str = field("Data", "The column with the sources of pairs.", "source", tasks="seq2seq")
    target_column: str = field("Data", "The column with the targets of pairs.", "target", tasks="seq2seq")
    id: str | None = field(
        "Data", "The column that says which rows form one sequence.", None, tasks="classify tag forecast"
    )
    time: str | None = field(
        "Data", "The column that orders the rows of a sequence.", None, tasks="classify tag forecast"
    )
    group: str | None = field("Data", "The column whose equal values never stand in two parts of a split.", None)
    memory: int = field(
        "Data",
        "Megabytes that data may take in memory. A file of more than a sixteenth of that is read a piece at a time and "
        "kept as numbers on the disk; its rows are then shuffled in pieces.",
        4000,
        ge=1,
        tasks="classify tag lm seq2seq",
    )
    cache: str | None = field(
        "Data",
        "The folder for the numbers of files larger than memory. None: beside the data, as NAME.numbers.",
        None,
        tasks="classify tag lm seq2seq",
    )
    workers: int = field(
        "Data",
        "What reads a file larger than memory: threads ahead of training, and, from 2 on, processes while it is turned "
        "into numbers. The result is the same for any number.",
        1,
        ge=0,
        tasks="classify tag lm seq2seq",
    )
    tokenizer: Literal["chars", "words", "spaces", "subword"] = field(
        "Data",
        "What a token of a text is. spaces: the text is tokenised already, a line end is <eos>.",
        "words",
        tasks="classify lm seq2seq",
        shown="words; lm: chars",
    )
    target_tokenizer: Literal["chars", "words", "spaces", "subword"] | None = field(
        "Data", "The same for the targets of pairs. None: as tokenizer.", None, tasks="seq2seq"
    )
    longest: int | None = field(
        "Data",
        "Most tokens of a target: a longer one in a file is an error. None: no limit, and what is written stops at "
        "twice the longest of the training part.",
        None,
        ge=1,
        tasks="seq2seq",
    )
    vocabulary_size: int | None = field(
        "Data", "At most so many tokens, the most frequent ones; for subword, the pieces to learn.", None, ge=2
    )
    min_count: int = field(
        "Data", "Tokens seen less often in training count as unknown.", 2, ge=1, shown="2; seq2seq: 1"
    )
    lowercase: bool = field("Data", "Lower all letters.", False, tasks="classify lm seq2seq")
    context: Literal["auto", "continuous", "independent"] = field(
        "Data",
        "continuous: one stream, the state goes on from text to text. independent: every document starts from the "
        "initial state and ends in an end symbol. auto: independent where the data hold several documents.",
        "auto",
        tasks="lm",
    )

    # model
    cell: Literal["rnn", "lstm", "gru", "transformer"] = field(
        "Model", "The recurrent cell, or the Transformer to compare with.", "lstm"
    )
    hidden: int = field("Model", "Units of each layer and direction.", 128, ge=1, shown="128; lm: 512")
    layers: int = field("Model", "Layers, one on the other.", 1, ge=1)
    bidirectional: bool = field("Model", "Also read from the end; not for lm.", False, shown="on; lm: off")
    heads: int = field("Model", "Parts that attend by themselves; divides hidden.", 4, ge=1, cells="transformer")
    feedforward: int | None = field(
        "Model", "Width of the network between two attentions. None: 4 x hidden.", None, ge=1, cells="transformer"
    )
    window: int | None = field(
        "Model", "Steps that it sees at most. None: as chunk.", None, ge=2, tasks="lm", cells="transformer"
    )
    embedding: int = field("Model", "Numbers that stand for a token.", 100, ge=1, shown="100; lm: 128")
    decoder_cell: Literal["rnn", "lstm", "gru"] | None = field(
        "Model", "The decoder's cell. None: as cell.", None, tasks="seq2seq"
    )
    decoder_hidden: int | None = field("Model", "The decoder's units. None: as hidden.", None, ge=1, tasks="seq2seq")
    decoder_layers: int | None = field("Model", "The decoder's layers. None: as layers.", None, ge=1, tasks="seq2seq")
    attention: Literal["auto", "none", "additive", "dot", "general"] = field(
        "Model",
        "How the decoder looks at the source: additive (Bahdanau et al.), dot or general (Luong et al.). auto: "
        "general, and none where the source is a vector.",
        "auto",
        tasks="seq2seq",
    )
    input_feeding: bool = field(
        "Model", "What dot and general attention found goes into the decoder's next step.", False, tasks="seq2seq"
    )
    bridge: Literal["projection", "copy", "zeros"] = field(
        "Model",
        "From the encoder's last state to the decoder's first: a learned projection, a copy where the sizes agree, or "
        "nothing.",
        "projection",
        tasks="seq2seq",
    )
    characters: bool = field("Model", "Also read each token letter by letter.", False, tasks="tag", shown="on")
    pooling: Literal["last", "mean", "max", "attention"] = field(
        "Model", "From the states of all steps to one vector; padding never counts.", "mean", tasks="classify"
    )
    crf: bool = field("Model", "Score whole tag sequences with a linear-chain CRF.", False, tasks="tag")
    tie_weights: bool = field(
        "Model", "The output layer uses the embedding's weights; needs embedding = hidden.", False, tasks="lm"
    )
    dropout: float = field("Model", "Dropout between layers; needs two or more.", 0.0, ge=0, lt=1)
    input_dropout: float = field("Model", "Dropout of the embedded tokens, or of the features.", 0.0, ge=0, lt=1)
    output_dropout: float = field("Model", "Dropout before the output layer.", 0.3, ge=0, lt=1, shown="0.3; lm: 0")
    word_dropout: float = field("Model", "Share of tokens replaced by the unknown while training.", 0.0, ge=0, lt=1)
    single_bias: bool = field(
        "Model", "One bias a gate, as textbooks write it; off: two, as torch.", False, cells=RECURRENT
    )
    reset_after: bool = field(
        "Model", "Reset gate after the product (torch, cuDNN); off: before, as Cho et al. (2014).", True, cells="gru"
    )
    forget_bias: float | None = field(
        "Model", "The forget gate's bias at the start. None: as init.", None, cells="lstm"
    )
    init: Literal["torch", "keras", "irnn"] = field(
        "Model", "How the recurrent weights start.", "torch", cells=RECURRENT
    )
    init_range: float | None = field(
        "Model", "All weights start uniform between minus and plus this; wins over init.", None, gt=0
    )
    learn_initial_state: bool = field("Model", "Train the state that a sequence starts from.", False, cells=RECURRENT)

    # training
    epochs: int = field("Training", "Times through the training data.", 30, ge=1, shown="30; tag: 15; lm: 10")
    batch_size: int = field("Training", "Sequences a step; for lm, parallel streams.", 32, ge=1, shown="32; lm: 64")
    accumulate: int = field(
        "Training",
        "Batches whose gradients are added up before each optimizer step, by their positions (gradient accumulation).",
        1,
        ge=1,
    )
    precision: Literal["float32", "bfloat16", "float16"] = field(
        "Training",
        "bfloat16 and float16: mixed precision. Products of a training step have 16 bits; weights, optimizer, losses "
        "and all scores stay float32.",
        "float32",
    )
    chunk: int = field("Training", "Time steps a gradient goes back (truncated BPTT).", 128, ge=1, tasks="lm")
    optimizer: Literal["adam", "adamw", "sgd"] = field("Training", "The optimizer.", "adamw")
    learning_rate: float = field("Training", "The learning rate at the start.", 2e-3, gt=0)
    schedule: Literal["constant", "cosine"] = field(
        "Training", "cosine falls to 0 over the epochs.", "constant", shown="constant; lm: cosine"
    )
    warmup: float = field(
        "Training", "Epochs in which the learning rate rises from 0; 0.2 is a fifth of the first one.", 0.0, ge=0
    )
    decay: float = field(
        "Training", "The learning rate is multiplied by this after each epoch past decay_after.", 1.0, gt=0, le=1
    )
    decay_after: int = field("Training", "Epochs at the full learning rate.", 0, ge=0)
    momentum: float = field("Training", "Momentum of sgd.", 0.0, ge=0, lt=1)
    weight_decay: float = field("Training", "Weights shrink by this, times the learning rate, a step.", 0.0, ge=0)
    clip: float | None = field(
        "Training", "Largest norm of the gradient; longer ones are scaled down.", 5.0, gt=0, shown="5; lm: 1"
    )
    loss_scale: Literal["mean", "sum_over_time"] = field(
        "Training",
        "mean over tokens, or the mean over streams of the sum over a chunk's steps: papers that give a learning rate "
        "and a clip for the sum need the sum (Zaremba et al., 2014).",
        "mean",
        tasks="lm",
    )
    label_smoothing: float = field(
        "Training", "Share of the target spread over all labels.", 0.0, ge=0, lt=1, tasks="classify seq2seq"
    )
    sampling: Literal["none", "linear", "exponential", "inverse_sigmoid"] = field(
        "Training",
        "Scheduled sampling: the decoder reads its own tokens more and more often, by this schedule. none: always the "
        "true ones (teacher forcing).",
        "none",
        tasks="seq2seq",
    )
    sampling_rate: float | None = field(
        "Training",
        "The schedule's constant, by epochs: linear, the share lost an epoch (None: all by the end); exponential, the "
        "share kept an epoch (0.9); inverse_sigmoid, the k of k / (k + exp(epoch / k)) (5).",
        None,
        gt=0,
        tasks="seq2seq",
    )
    sampling_floor: float = field(
        "Training", "The least share of true tokens under scheduled sampling.", 0.0, ge=0, le=1, tasks="seq2seq"
    )
    beam: int = field(
        "Training", "Hypotheses side by side when a finished model writes; 1: greedy.", 4, ge=1, tasks="seq2seq"
    )
    length_penalty: float = field(
        "Training", "How far the beam's scores are normalised by length: 0 not, 1 fully.", 0.6, ge=0, tasks="seq2seq"
    )
    coverage_penalty: float = field(
        "Training", "What the beam takes off for sources that were not looked at.", 0.0, ge=0, tasks="seq2seq"
    )
    bleu: bool = field("Training", "Also report BLEU and chrF, by sacrebleu.", False, tasks="seq2seq")
    feature_noise: float = field(
        "Training", "Deviation of noise added to standardised features.", 0.0, ge=0, tasks="classify tag seq2seq"
    )
    average: float | None = field(
        "Training", "Keep a moving average of the weights with this decay a step, and score it.", None, gt=0, lt=1
    )
    patience: int | None = field(
        "Training", "Stop after so many epochs without a better validation score.", 10, ge=1, shown="10; lm: none"
    )

    # the run
    seed: int = field("Run", "The same seed, machine and threads give the same weights.", 0, ge=0, lt=2**63)
    device: str = field("Run", "auto, cpu, cuda, cuda:0 or mps.", "auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    processes: int | None = field(
        "Run", "Processes that torchrun started; another number is an error. None: as many as there are.", None, ge=1
    )
    threads: int | None = field("Run", "Threads for the arithmetic. None: as torch chooses.", None, ge=1)
    backend: Literal["auto", "reference", "native", "torch"] = field(
        "Run", "The engine of the recurrent layers.", "auto", cells=RECURRENT
    )
    checkpoint_every: int | None = field(
        "Run", "Optimizer steps between two checkpoints within an epoch. None: by minutes alone.", None, ge=1
    )
    checkpoint_minutes: float | None = field(
        "Run", "Minutes after which a checkpoint is written in the middle of an epoch.", 10.0, gt=0
    )
    log_every: int = field("Run", "Optimizer steps between two lines of metrics.jsonl.", 20, ge=1)
    track: str | None = field(
        "Run",
        "Also send the numbers of metrics.jsonl to tensorboard, wandb or mlflow; parted by commas.",
        None,
        pattern=r"^(tensorboard|wandb|mlflow)(,(tensorboard|wandb|mlflow))*$",
    )
    inspect_every: int | None = field(
        "Run",
        "Optimizer steps between two looks at gates and gradients, which metrics.jsonl keeps. None: no looks.",
        100,
        ge=1,
        cells=RECURRENT,
    )
    report: bool = field("Run", "Write report.html into the run folder when training ends.", True)
