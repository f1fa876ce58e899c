"""What records of several tools share: when a row was measured and of which commit, and the two halves."""

from __future__ import annotations

import hashlib
import subprocess
from datetime import UTC, datetime
from pathlib import Path


def measured_now() -> tuple[str, str]:
    """The date, and the commit of the checkout; "" where it is none."""
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return datetime.now(UTC).isoformat(timespec="seconds"), asked.stdout.strip()


def sha_of(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()


def is_ours(name: str) -> bool:
    """Whether a name is of the half that may be looked at while the simulator is worked on."""
    return int(sha_of(name)[0], 16) % 2 == 0
