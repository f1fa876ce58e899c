"""What the tests of either house read in files of the project."""

import ast
import re
from pathlib import Path


def imported(path: Path) -> set[str]:
    """The top-level modules that a file of Python imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def broken_links(folder: Path) -> set[tuple[str, str]]:
    """The links that lead to no file, each with its page: of a folder's README and of its docs."""
    found = set()
    for page in (folder / "README.md", *(folder / "docs").glob("*.md")):
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.S)
        links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text)
        found |= {(page.name, link) for link in links if not (page.parent / link).exists()}
    return found
