"""One measurement in a process of its own: `python -m unrolled.training.compare.child`, a job in, an answer out.

The job is one JSON object on standard input, the answer one on standard output; nothing else is passed, and no shell
stands between. A fresh process has not held memory for anything else, so its largest resident size tells what this
job took. It is VmHWM of /proc/self/status where there is one: ru_maxrss would also hold the parent's size at the fork.

    train       a whole run                                  → scores, seconds, memory
    training    forward and backward at one length           → seconds a repetition, memory
    token       one more step behind some lengths            → seconds a repetition, bytes of state
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from unrolled.errors import RunError, UnrolledError

__all__ = ["ask", "main", "resident"]

Job = dict[str, Any]
Answer = dict[str, Any]

WARM_UP = 16  # steps of the sequence that a layer reads before anything is measured
AT_LEAST = 0.1  # seconds that one repetition goes on; its fastest round counts, as others may use the machine
STATUS = Path("/proc/self/status")


def ask(job: Job) -> Answer:
    """Run a job in a fresh process.

    Raises:
        RunError: the job failed; the message is the child's.
    """
    done = subprocess.run(
        [sys.executable, "-m", "unrolled.training.compare.child"],
        input=json.dumps(job).encode(),
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode().splitlines()
    if done.returncode or not lines:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said else "out of memory?" if done.returncode < 0 else "it said nothing"
        raise RunError(f"{job['kind']}: the process ended with code {done.returncode}: {why}")
    answer: Answer = json.loads(lines[-1])
    if "error" in answer:
        raise RunError(answer["error"])
    return answer


def main() -> None:
    """Read a job, do it, write the answer."""
    job: Job = json.loads(sys.stdin.read())
    try:
        answer = JOBS[job["kind"]](job)
    except UnrolledError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


def train(job: Job) -> Answer:
    """Train a recipe. Memory: of the whole process, at most while it trained, and when training began."""
    from unrolled.training import Recipe, load
    from unrolled.training import train as train_run
    from unrolled.training.loop import Silent

    class Watch(Silent):
        """Reads the memory when training ends: the baselines that are counted afterwards are not the model's."""

        at_start: int | None = None
        peak: int | None = None

        def start(self, **_: Any) -> None:
            self.at_start = resident(restart=True)["now"]

        def stop(self) -> None:
            self.peak = resident()["peak"]

    _load_optimizers()
    watch = Watch()
    result = train_run(Recipe(**job["recipe"]), out=job["out"], progress=watch)
    report = result.report
    trained = load(result.run)
    name, value, more = trained.task.score(report.metrics)
    return {
        "metrics": report.metrics,
        "score": {"name": name, "value": value, "more_is_better": more},
        "baselines": report.baselines,
        "scored": {"items": report.items, "unit": report.unit, "data": report.data},
        "valid": result.valid,
        "seconds": result.seconds,
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "engine": engine(result.run),
        "resident_bytes": watch.peak,
        "resident_bytes_at_start": watch.at_start,  # with libraries, data and weights
    }


def _load_optimizers() -> None:
    """Take one step: torch imports a good part of itself at the first one, which is not the model's memory."""
    import torch

    weight = torch.nn.Parameter(torch.zeros(1))
    weight.sum().backward()
    torch.optim.AdamW([weight]).step()


def engine(run: Any) -> str:
    """What runs the cells of a run on float32: an engine of `unrolled.kernels`, or torch for a Transformer."""
    import torch

    from unrolled.kernels import choose
    from unrolled.training import Recipe

    recipe = Recipe.load(Path(run) / "recipe.toml")
    if recipe.cell == "transformer":
        return "torch"
    return choose(f"{recipe.cell}_scan", torch.zeros(2, 2, 2), backend=recipe.backend).name


def training(job: Job) -> Answer:
    """Forward and backward through one layer: (batch, length, width), `repeats` times."""
    import torch

    layer = _layer(job, window=job["length"]).train()

    def step(length: int) -> None:
        x = torch.randn(job["batch"], length, job["width"], requires_grad=True)
        layer(x)[0].square().mean().backward()

    step(WARM_UP)
    before = resident(restart=True)["now"]
    seconds = [_fastest(lambda: step(job["length"])) for _ in range(job["repeats"])]
    peak = _more(resident()["peak"], before)
    x = torch.randn(job["batch"], job["length"], job["width"], requires_grad=True)
    return {"seconds": seconds, "resident_bytes": peak, "saved_bytes": saved_bytes(layer, x)}


def token(job: Job) -> Answer:
    """One more step, for one row, behind each of some lengths. The state is read once and not moved on."""
    import torch

    points = []
    layer = _layer(job, window=max(job["lengths"]) + 1).eval()
    with torch.inference_mode():
        for length in job["lengths"]:
            _, state = layer(torch.randn(1, length, job["width"]))
            x = torch.randn(1, 1, job["width"])

            def step(state: Any = state, x: Any = x) -> None:
                layer(x, state)

            step()
            seconds = [_fastest(step) for _ in range(job["repeats"])]
            points.append({"length": length, "seconds": seconds, "state_bytes": sum(map(_bytes, _leaves(state)))})
    return {"points": points}


def saved_bytes(layer: Any, x: Any) -> int:
    """Bytes that autograd keeps between the forward and the backward pass: each storage once, weights and input not.

    Exact and the same at every call: it counts what is saved, not what an allocator happens to hold.
    """
    import torch

    own = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    own.add(x.untyped_storage().data_ptr())
    storages: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = layer(x)[0].square().mean()
    del loss
    return sum(storage.nbytes() for storage in storages.values())


def resident(*, restart: bool = False) -> dict[str, int | None]:
    """Resident bytes of this process, now and at most so far. `restart` begins the peak anew where the system can."""
    if not STATUS.exists():
        return {"now": 0, "peak": _largest_resident()}
    if restart:
        with contextlib.suppress(OSError):  # not allowed: the peak since the process began is then what there is
            Path("/proc/self/clear_refs").write_text("5")
    fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines() if ":" in line)
    return {name: int(fields[key].split()[0]) * 1024 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}


def _largest_resident() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def _more(peak: int | None, before: int | None) -> int | None:
    return None if peak is None else max(peak - (before or 0), 0)


def _layer(job: Job, window: int) -> Any:
    import torch

    from unrolled.models.build import layer_of

    torch.manual_seed(0)
    if job["threads"]:
        torch.set_num_threads(job["threads"])
    return layer_of(job["layer"] | {"window": max(window, WARM_UP)}, job["width"])


def _fastest(action: Callable[[], object]) -> float:
    """Seconds of the fastest of as many rounds as `AT_LEAST` has room for, at least one."""
    begun = now = time.perf_counter()
    best = float("inf")
    while True:
        started = now
        action()
        now = time.perf_counter()
        best = min(best, now - started)
        if now - begun >= AT_LEAST:
            return best


def _leaves(state: Any) -> Iterator[Any]:
    if isinstance(state, tuple | list):
        for part in state:
            yield from _leaves(part)
    elif state is not None:
        yield state


def _bytes(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size()


JOBS: dict[str, Callable[[Job], Answer]] = {"train": train, "training": training, "token": token}

if __name__ == "__main__":
    main()
