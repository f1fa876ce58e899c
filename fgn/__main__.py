"""The command line: `python -m fgn <command>`.

The commands of puzzles start without the others: they need no torch, whose import takes seconds.
"""

from __future__ import annotations

import argparse
import os
import sys

import fgn
from fgn.puzzles import commands as of_puzzles


class Parser(argparse.ArgumentParser):
    """Tells an error in one line; `--help` has the rest."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}\n")


def main():
    parser = Parser("python -m fgn", description="Fused GEMM, GroupNorm, activation chains")
    parser.add_argument("--version", action="version", version=f"fgn {fgn.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(function) -> argparse.ArgumentParser:
        # Python -OO leaves no docstrings.
        summary = (function.__doc__ or function.__name__).rstrip(".")
        name, short = function.__name__, summary[0].lower() + summary[1:]
        added = commands.add_parser(name, help=short, description=summary)
        added.set_defaults(function=function, json=False, csv=False, tables=[])
        return added

    if sys.argv[1:2] not in (["puzzle"], ["grade"]):
        from fgn.commands import describe

        describe(add)
    of_puzzles.describe(add(of_puzzles.puzzle), add(of_puzzles.grade))

    arguments = parser.parse_args()
    try:
        arguments.function(arguments)
        if arguments.tables:
            from fgn.commands import print_tables

            print_tables(arguments)
        if sys.stdout is not None:  # closed by who started this, as `>&-` does
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as head does; Python would write to it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except (RuntimeError, OSError, ValueError, OverflowError) as error:
        # BuildError, MissingToolError, ProfilerError and KernelFault are RuntimeErrors.
        sys.exit(f"fgn: {error}")


if __name__ == "__main__":
    main()
