"""`python -m documents`, for documents with a text in each line."""

from __future__ import annotations

from documents import translation
from documents.__main__ import main
from tests.documents.conftest import LINES

if __name__ == "__main__":
    translation.find_format = lambda name: LINES
    main()
