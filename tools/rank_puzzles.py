"""Ranks the solutions of the puzzles, beside what learners begin with and the floor: measured where there is
a GPU, elsewhere predicted. It ends with an error where a solution is not right there.

python tools/rank_puzzles.py [NAME ...] [--csv FILE]
"""

from __future__ import annotations

import argparse

import pandas as pd

from cudasim.building.library import BuildError
from fgn.puzzles.catalogue import find
from fgn.puzzles.ranking import LARGE, YOURS, ranked


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="of puzzles; by default all that have sizes that fill a GPU")
    parser.add_argument("--csv", help="a file for the table")
    arguments = parser.parse_args()
    tables, failed = {}, []
    for name in arguments.names or LARGE:
        task = find(name)
        try:
            ranking = ranked(task, task.solution())
        except (BuildError, RuntimeError, ValueError) as error:
            failed.append(name)
            print(f"{name}: {error}", flush=True)
            continue
        print(ranking, "\n", flush=True)
        if YOURS not in ranking.table.index:
            failed.append(name)
        tables[name] = ranking.table
    if arguments.csv:
        pd.concat(tables, names=["puzzle", "kernel"]).to_csv(arguments.csv)
    if failed:
        raise SystemExit(f"not ranked: {', '.join(failed)}")


if __name__ == "__main__":
    main()
