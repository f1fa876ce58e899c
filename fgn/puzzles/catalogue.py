"""All puzzles by name, in order, and their notebooks."""

from __future__ import annotations

from pathlib import Path

from fgn.puzzles import (
    attention,
    host_code,
    mma_and_tma,
    norms,
    products,
    profiles,
    repairs,
    shared_memory,
    sorts,
    stencils_and_sparse,
    threads,
    warps_and_scans,
)
from fgn.puzzles.definition import Task

# The notebooks in `notebooks/puzzles/`, by the beginnings of their names.
NOTEBOOKS: dict[str, tuple[Task, ...]] = {
    "01_threads": threads.TASKS,
    "02_shared_memory": shared_memory.TASKS,
    "03_warps_and_scans": warps_and_scans.TASKS,
    "04_sorts": sorts.TASKS,
    "05_stencils_and_sparse": stencils_and_sparse.TASKS,
    "06_norms": norms.TASKS,
    "07_products": products.TASKS,
    "08_attention": attention.TASKS,
    "09_tensor_cores": mma_and_tma.TASKS,
    "10_repairs": repairs.TASKS,
    "11_host_code": host_code.TASKS,
    "12_profiles": profiles.TASKS,
}

TASKS: dict[str, Task] = {task.name: task for tasks in NOTEBOOKS.values() for task in tasks}


def add(folder: str | Path) -> tuple[str, ...]:
    """Adds the puzzles of a user's folder, or reads them again, and returns their names. ValueError if a
    puzzle or its kernel has a name that another folder already uses."""
    from fgn.puzzles.own import read

    tasks = read(folder)
    for task in tasks:
        for other in TASKS.values():
            if other.folder != task.folder and (other.name == task.name or other.kernel == task.kernel):
                raise ValueError(
                    f"{task.folder / task.name}.py: there is a puzzle {other.name} with the kernel "
                    f"{other.kernel} already: choose other names"
                )
    NOTEBOOKS[Path(folder).resolve().name] = tasks
    TASKS.update({task.name: task for task in tasks})
    return tuple(task.name for task in tasks)


def find(name: str) -> Task:
    """The task of this name; ValueError lists the existing ones."""
    if name not in TASKS:
        raise ValueError(f"name: expected one of {', '.join(TASKS)}, got {name!r}")
    return TASKS[name]
