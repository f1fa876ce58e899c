"""A learner's progress, in one small JSON file.

The file is `puzzles.json` in `$XDG_DATA_HOME/fgn`, by default in `~/.local/share/fgn`; the environment
variable `FGN_PUZZLES` names another one. For each puzzle it has how often it was checked, whether it is
solved, the source that solved it, how many hints were read, and whether the solution was read first.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fgn import readers_files


@dataclass
class Record:
    """The file's record of one puzzle."""

    checks: int = 0
    solved: bool = False
    source: str = ""
    hints: int = 0
    read_solution: bool = False


def path() -> Path:
    """Where the file is, or will be."""
    if os.environ.get("FGN_PUZZLES"):
        return Path(os.environ["FGN_PUZZLES"])
    return readers_files.place_of("puzzles.json")


def _record(values) -> Record:
    """The record in a file's values, without values that belong to no record."""
    known = {each.name: type(each.default) for each in fields(Record)}
    values = values if isinstance(values, dict) else {}
    return Record(**{name: value for name, value in values.items() if type(value) is known.get(name)})


# Records that could not be saved: they are kept until the session ends.
_unsaved: dict[str, Record] = {}


def load() -> dict[str, Record]:
    """All records, by the puzzles' names. An unreadable file counts as empty."""
    content = readers_files.content_of(path())
    return {name: _record(values) for name, values in content.items()} | _unsaved


def save(name: str, record: Record) -> None:
    """Replaces the record of a puzzle. Warns once if the file cannot be written."""
    records = load() | {name: record}
    text = json.dumps({key: asdict(value) for key, value in records.items()}, indent=1)
    try:
        readers_files.replace(path(), text)
    except OSError as error:
        if not _unsaved:
            warnings.warn(f"the progress of the puzzles is not saved: {error}", stacklevel=3)
        _unsaved[name] = record
