"""How Sphinx makes the book of the notebooks; tools/book.py lays out its source and calls it."""

project = "fgn"
author = "the authors of fgn"
extensions = ["myst_nb"]
root_doc = "index"
html_theme = "sphinx_book_theme"
html_title = "fgn: what fusion buys"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": [],  # players and tables take its place
}

# The outputs are those that the notebooks were saved with. Nothing is fetched from a network: neither the
# scripts of widgets, which would need a kernel, nor those of formulas, of which there are none.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_merge_streams = True
myst_heading_anchors = 3
myst_links_external_new_tab = True
