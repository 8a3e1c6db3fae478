"""The options that the commands for many files share."""

from __future__ import annotations

from typing import Annotated

import typer

SourceLanguage = Annotated[
    str | None,
    typer.Option(
        "--from", help="The language of the texts; without it, it is identified."
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option("--column", help="The column with texts; again for each further one."),
]
NewNames = Annotated[
    list[str] | None,
    typer.Option(
        "--into",
        help="The new column, once for each --column. Without it, text_fr for text.",
    ),
]
NoQuotes = Annotated[
    bool,
    typer.Option(
        "--no-quotes", help="In .tsv files, quotes are characters like all others."
    ),
]
EveryFrame = Annotated[
    str,
    typer.Option(
        "--every", help="Take each N-th frame (10), or one each so often (1s, 0.5s)."
    ),
]
