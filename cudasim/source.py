"""The text of kernels, for notebooks and for the source view."""

from __future__ import annotations

# The text of what was launched last from a notebook cell or a string, under each file's name: the source view
# shows it.
launched_sources: dict[str, str] = {}


class Source(str):
    """CUDA C that a notebook shows highlighted."""

    language = "cuda"

    def __repr__(self):
        return str(self)

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.styles.default import DefaultStyle
        from pygments.token import Error

        class Plain(DefaultStyle):
            """Where a number stands before a directive, the lexer sees an error; a reader need not."""

            styles = DefaultStyle.styles | {Error: ""}

        # Styles stand in the text itself: notebook viewers disagree about style sheets, and about the font of
        # preformatted text in an output.
        formatter = HtmlFormatter(
            style=Plain, noclasses=True, nobackground=True, prestyles="font-family: monospace"
        )
        return highlight(
            str(self), get_lexer_by_name(self.language, stripall=False, stripnl=False), formatter
        )
