"""Looking into a trained model: `unrolled inspect`, and what a report draws.

    found = inspect("runs/plays", ["To be, or not to be"])
    print(found["verdict"]["word"])

    views     how each task's model is called for one item
    metrics   what training wrote about gradients
    inspecting  the whole inspection as JSON

The shape of the JSON is documented in `unrolled.insight`.
"""

from unrolled.training.inspection.inspecting import inspect, summary_lines

__all__ = ["inspect", "summary_lines"]
