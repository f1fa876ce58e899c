"""All puzzles by name, in their order, and the notebooks that they are in."""

from __future__ import annotations

from fgn.puzzles import mma_and_tma, norms, products, repairs, shared_memory, threads
from fgn.puzzles.definition import Task

# The notebooks in `notebooks/puzzles/`, by the beginnings of their names.
NOTEBOOKS: dict[str, tuple[Task, ...]] = {
    "1_threads": threads.TASKS,
    "2_shared_memory": shared_memory.TASKS,
    "3_norms": norms.TASKS,
    "4_products": products.TASKS,
    "5_tensor_cores": mma_and_tma.TASKS,
    "6_repairs": repairs.TASKS,
}

TASKS: dict[str, Task] = {task.name: task for tasks in NOTEBOOKS.values() for task in tasks}


def find(name: str) -> Task:
    """The task of this name; ValueError names those that there are."""
    if name not in TASKS:
        raise ValueError(f"name: expected one of {', '.join(TASKS)}, got {name!r}")
    return TASKS[name]
