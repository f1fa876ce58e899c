"""Programs of repositories that nobody here had seen, for programs.py: how they are drawn, and how built.

    python lab/drawn.py FOLDER lab/records/drawn.csv     # writes the list of a folder's programs

The folder has a folder for each repository, named owner+name. A program is a source with a main(), and the
other sources of its folder and below that have none, and that no other source includes. It is CUDA's if one
of them is a .cu file. Of a repository at most PROGRAMS are drawn, the first by the SHA-1 of their paths. What
needs a window, MPI or cuDNN is no part of the draw. Both halves have whole repositories, by the SHA-1 of
their names.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from recorded import is_ours, measured_now, sha_of

PROGRAMS = 4
_SOURCES = (".cu", ".cpp", ".cc", ".c")
_HAS_MAIN = re.compile(r"^[^/\n]*\bmain\s*\(", re.M)
_INCLUDED = re.compile(r"^\s*#\s*include\s*[\"<]([^\">]+)", re.M)
_ELSEWHERE = re.compile(
    r"#\s*include\s*[\"<](?:GL/|glad/|GLFW/|SDL|SFML/|imgui|opencv|windows\.h|cuda_gl|mpi\.h|cudnn|gtk)"
    r"|gl_helper|cpu_bitmap|cpu_anim",
    re.I,
)


def sources_of(main: Path, texts: dict[Path, str]) -> list[Path]:
    """A program's files: its main() first."""
    near = [of for of in texts if of.is_relative_to(main.parent) and of.suffix in _SOURCES]
    if any(of.parent == main.parent and of != main and _HAS_MAIN.search(texts[of]) for of in near):
        return [main]
    included = {Path(name).name for of in texts for name in _INCLUDED.findall(texts[of])}
    return [main, *(of for of in near if of.name not in included and not _HAS_MAIN.search(texts[of]))]


def headers_of(folder: Path, sources: list[Path]) -> list[Path]:
    """The folders of a repository that have a header which the sources name."""
    said = "".join(of.read_text(errors="replace") for of in sources)
    named = {Path(name).name for name in _INCLUDED.findall(said)}
    return sorted({of.parent for of in folder.rglob("*") if of.name in named})


def drawn(root: Path) -> Iterator[tuple[str, Path, list[Path]]]:
    """Of each program the repository, its main() and all its files."""
    for folder in sorted(of for of in root.iterdir() if "+" in of.name):
        kept = (*_SOURCES, ".h", ".hpp", ".cuh")
        files = sorted(of for of in folder.rglob("*") if of.suffix in kept and of.is_file())
        texts = {of: of.read_text(errors="replace") for of in files}
        found = []
        for main in files:
            if main.suffix not in _SOURCES or not _HAS_MAIN.search(texts[main]):
                continue
            sources = sources_of(main, texts)
            named = {Path(name).name for of in sources for name in _INCLUDED.findall(texts[of])}
            beside = [texts[of] for of in files if of.name in named]
            if any(_ELSEWHERE.search(said) for said in [*(texts[of] for of in sources), *beside]):
                continue
            if any(of.suffix == ".cu" for of in sources):
                found.append((main, sources))
        found.sort(key=lambda of: sha_of(str(of[0].relative_to(folder))))
        for main, sources in found[:PROGRAMS]:
            yield folder.name.replace("+", "/", 1), main, sources


def main():
    root, record = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    commits = dict(of.split() for of in (root / "commits.txt").read_text().splitlines())
    rows = [
        (repository, commits[repository], str(main.relative_to(root / repository.replace("/", "+", 1))))
        for repository, main, _ in drawn(root)
    ]
    with record.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("repository", "at", "program", "half", "date", "commit"))
        now = measured_now()
        out.writerows((*row, "ours" if is_ours(row[0]) else "aside", *now) for row in rows)
    print(sum(is_ours(row[0]) for row in rows), "of ours,", len(rows), "in all")


if __name__ == "__main__":
    main()
