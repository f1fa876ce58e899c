"""The book: every page is made, every link leads somewhere, and nothing is fetched from a network."""

import book
import pytest

from fgn.native.places import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    target = tmp_path_factory.mktemp("book") / "html"
    pages, dead = book.make(target)
    assert not dead, "\n".join(dead)
    return {path.relative_to(target).as_posix(): page for path, page in pages.items()}


def test_every_notebook_and_every_page_of_docs_is_in_the_book(pages):
    for path in (*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "docs").glob("*.md")):
        assert f"{path.parent.name}/{path.stem}.html" in pages
    assert "search.html" in pages


def test_players_and_folded_answers_come_with_the_page(pages):
    page = pages["notebooks/00_first_run.html"]
    player = page.select_one(".fgn-player")
    assert player.img["src"].startswith("data:image/svg+xml")  # where no script runs
    assert player.find_next_sibling("script") is not None
    assert any("of 3 points" in details.text for details in page.select("details:not([open])"))


def test_words_of_the_glossary_tell_what_they_mean(pages):
    terms = pages["notebooks/05_counted.html"].select("a.term")
    assert len(terms) > 10
    assert all(term["data-means"] and term["href"].endswith("docs/glossary.html") for term in terms)
    assert not pages["docs/glossary.html"].select("a.term")


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "other.html").write_text('<p id="here"></p>')
    (tmp_path / "page.html").write_text(
        '<a href="other.html#here">a</a><a href="other.html#gone">b</a><a href="gone.html">c</a>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org">d</a>'
    )
    dead = book.dead_links(tmp_path, {path: book.read(path) for path in book.pages_of(tmp_path)})
    assert len(dead) == 3 and all("page.html" in line for line in dead)
