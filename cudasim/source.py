"""The text of kernels, for notebooks and for the source view."""

from __future__ import annotations

# By file name, the text that was last launched from a notebook cell or a string: the source view shows it.
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
            """The lexer reports an error where a line number precedes a directive; the reader need not see
            it."""

            styles = DefaultStyle.styles | {Error: ""}

        # Styles are in the text itself: notebook viewers disagree about style sheets, and about the font of
        # preformatted output.
        formatter = HtmlFormatter(
            style=Plain, noclasses=True, nobackground=True, prestyles="font-family: monospace"
        )
        return highlight(
            str(self), get_lexer_by_name(self.language, stripall=False, stripnl=False), formatter
        )
