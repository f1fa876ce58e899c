"""Small JSON files with a reader's guesses, answers and progress in the puzzles."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from cudasim.building.places import home_folder


def place_of(name: str) -> Path:
    """Where the file is, or will be, unless an environment variable names another one."""
    data = os.environ.get("XDG_DATA_HOME") or home_folder() / ".local" / "share"
    return Path(data) / "fgn" / name


def content_of(path: Path) -> dict:
    """The file's contents, by name. An unreadable file counts as empty."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def replace(path: Path, text: str):
    """Replaces the file's contents atomically: a reader meanwhile finds the old ones. OSError if the file
    cannot be written."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
