"""Commands for teachers: `python -m fgn puzzle` and `python -m fgn grade`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def puzzle(arguments):
    """Try your own puzzles in a folder, or begin a new one: FOLDER/NAME --new."""
    from fgn.puzzles import own

    if arguments.new:
        print(*own.write_new(arguments.folder), sep="\n")
        return
    failed = 0
    for task in own.read(arguments.folder):
        for what, is_so, said in own.tried(task):
            failed += not is_so
            print(f"{'✓' if is_so else '✗'} {task.name}: {what}", flush=True)
            if not is_so:
                print(said)
    if failed:
        raise ValueError(f"not as it should be: {failed}")


def grade(arguments):
    """Grade a class's notebooks of puzzles: points, tables, a picture of where students are stuck,
    feedback."""
    from fgn.puzzles import catalogue, grading

    for folder in arguments.puzzles:
        catalogue.add(folder)
    tasks = [catalogue.find(name) for name in arguments.puzzle or catalogue.TASKS]
    grades, unread = grading.grade(
        arguments.folder,
        tasks,
        arguments.seed,
        tell=lambda each: print(f"{each.student} {each.puzzle}: {each.points:g}", file=sys.stderr),
    )
    for words in unread:
        print(f"not read: {words}", file=sys.stderr)
    if not grades:
        raise ValueError(f"folder: {arguments.folder} has no notebook with a kernel of these puzzles")
    grading.write(grades, arguments.out)
    tables = (grading.table(grades), grading.stuck(grades))
    print(*(table.to_string() for table in tables), f"written: {arguments.out}/", sep="\n\n")


def describe(puzzle_parser: argparse.ArgumentParser, grade_parser: argparse.ArgumentParser) -> None:
    """Adds the options of the two commands."""
    puzzle_parser.add_argument("folder", type=Path, help="of puzzles; with --new FOLDER/NAME")
    puzzle_parser.add_argument("--new", action="store_true", help="write one that works, to be changed")
    grade_parser.add_argument(
        "folder", type=Path, help="has STUDENT/*.ipynb or STUDENT.ipynb; nbgrader's is submitted/"
    )
    grade_parser.add_argument("--out", type=Path, default=Path("grades"), help="default: %(default)s/")
    grade_parser.add_argument("--puzzle", action="append", help="one of them; by default all that are there")
    grade_parser.add_argument(
        "--puzzles", action="append", type=Path, default=[], metavar="FOLDER", help="of one's own as well"
    )
    grade_parser.add_argument("--seed", default="", help="draws sizes and inputs; by default a new one")
