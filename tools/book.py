"""Makes the book: a folder of static HTML with all notebooks, as they were saved, that needs no network.

python tools/book.py [FOLDER]      into build/book/html, or the folder that is named

Sphinx with MyST-NB makes the pages from a copy of notebooks/ and docs/. After that, links to files of the
repository that are no pages get a copy of the file, words of the glossary get their meaning, and every link
of every page is followed: a dead one is an error.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, NavigableString

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "build" / "book"
# Nothing inside these is looked up in the glossary.
PLAIN = (
    "a",
    "code",
    "pre",
    "h1",
    "h2",
    "h3",
    "h4",
    "script",
    "style",
    "svg",
    "nav",
    "header",
    "footer",
    "summary",
)
# Words of the glossary that a text also has in another sense: out of bounds, step by step, two halves,
# a piece of code, the first phase.
EVERYDAY = ("out", "step", "halves", "piece", "phase")


def lay_out(source: Path):
    """The book's source: the notebooks and the pages of docs/, at the places that their links expect."""
    shutil.rmtree(source, ignore_errors=True)
    (source / "_static").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "book" / "book.css", source / "_static")
    for name in ("conf.py", "index.md"):
        shutil.copy(ROOT / "docs" / "book" / name, source)
    for pattern in ("notebooks/*.ipynb", "notebooks/puzzles/*.ipynb", "docs/*.md", "profiles/*/*.png"):
        for path in sorted(ROOT.glob(pattern)):
            place = source / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def make_pages(source: Path, target: Path):
    shutil.rmtree(target, ignore_errors=True)
    # Links to files that are no pages are not Sphinx's to know; `dead_links()` looks at all of them.
    # A cell of CUDA C is highlighted as Python as far as that goes.
    unimportant = "myst.xref_missing,mystnb.unknown_mime_type,misc.highlighting_failure"
    settings = ["-D", f"suppress_warnings={unimportant}"]
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    subprocess.run([*command, *settings, str(source), str(target)], check=True)


def pages_of(target: Path) -> list[Path]:
    """All but the theme's own templates."""
    return [path for path in sorted(target.rglob("*.html")) if "_static" not in path.parts]


def glossary() -> dict[str, str]:
    """The words of docs/glossary.md and what they mean, without the source of each."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    found = {}
    for words, meaning in re.findall(r"^\*\*(.+?)\*\* – (.+?)(?:\n\n|\Z)", text, re.S | re.M):
        plain = re.sub(r"[`*]", "", " ".join(meaning.split()))
        for word in re.sub(r"\(.*?\)", "", words).split(","):
            word = word.strip().strip("`")
            if len(word) > 2 and word not in EVERYDAY:
                found[word] = plain
    return found


def explain_words(page: BeautifulSoup, words: dict[str, str], glossary_page: str):
    """The first time that a word of the glossary stands in the text of a section, it tells its meaning."""
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?:s|es)?(?![\w-])")
    for section in page.select("article section"):
        told: set[str] = set()
        for text in list(section.find_all(string=pattern)):
            if (
                text.find_parent(PLAIN)
                or text.find_parent(class_="cell")
                or text.find_parent("section") is not section
            ):
                continue
            pieces, end = [], 0
            for match in pattern.finditer(text):
                if match[1] in told:
                    continue
                told.add(match[1])
                link = page.new_tag(
                    "a", href=glossary_page, attrs={"class": "term", "data-means": words[match[1]]}
                )
                link.string = match[0]
                pieces += [NavigableString(text[end : match.start()]), link]
                end = match.end()
            if pieces:
                text.replace_with(*pieces, NavigableString(text[end:]))


def copy_linked_files(page: BeautifulSoup, path: Path, target: Path):
    """Files of the repository that a page links to come with the book; folders are named, and not linked."""
    for link in page.select("a[href]"):
        if link["href"].startswith("#") and "/" in link["href"]:
            link["href"] = link["href"][1:]  # MyST takes what is no page for a place in this one
        href = urlsplit(link["href"])
        if href.scheme or href.netloc or not href.path:
            continue
        place = (path.parent / unquote(href.path)).resolve()
        if place.exists() or target not in place.parents:
            continue
        original = ROOT / place.relative_to(target)
        if original.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(original, place)
        elif original.is_dir():
            link.name = "code"
            link.attrs = {}


def read(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(), "html.parser")


def dead_links(target: Path, pages: dict[Path, BeautifulSoup]) -> list[str]:
    """Every link and every file of a page that is not there, and what would be fetched to show the page.

    A link to somebody else's page is not followed: nothing is fetched until a reader clicks on it.
    """
    anchors = {path: {tag["id"] for tag in page.select("[id]")} for path, page in pages.items()}
    dead = []
    for path, page in pages.items():
        for tag in page.select("[href], [src]"):
            address = tag.get("src") or tag.get("href")
            parts = urlsplit(address)
            if parts.scheme == "data" or address == "#":
                continue
            if parts.scheme or parts.netloc:
                if tag.name != "a" and tag.get("rel") not in (["canonical"], ["search"]):
                    dead.append(f"{path.relative_to(target)}: {address} is fetched from a network")
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not place.exists():
                dead.append(f"{path.relative_to(target)}: {address} is not there")
            elif parts.fragment and place in anchors and unquote(parts.fragment) not in anchors[place]:
                dead.append(f"{path.relative_to(target)}: {address} has no such place")
    return dead


def make(target: Path) -> tuple[dict[Path, BeautifulSoup], list[str]]:
    """Makes the book in a folder; returns its pages, and what is dead in them."""
    source = BOOK / "source"
    lay_out(source)
    make_pages(source, target)
    words = glossary()
    pages = {path: read(path) for path in pages_of(target)}
    for path, page in pages.items():
        copy_linked_files(page, path, target)
        if path.name != "glossary.html":
            depth = len(path.relative_to(target).parts) - 1
            explain_words(page, words, "../" * depth + "docs/glossary.html")
        path.write_text(str(page))
    return pages, dead_links(target, pages)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=BOOK / "html")
    target = parser.parse_args().folder.resolve()
    _, dead = make(target)
    if dead:
        sys.exit("\n".join(dead))
    print(f"{target / 'index.html'}")


if __name__ == "__main__":
    main()
