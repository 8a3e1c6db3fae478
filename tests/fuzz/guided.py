"""Looks for documents on which a format fails, guided by the code that they reach: `python -m
tests.fuzz.guided .po -max_total_time=60`. Needs atheris, which is libFuzzer for Python; what
follows the ending is libFuzzer's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["documents", "contract", "markdown_it"]):
    from tests.fuzz.mutations import pack_parts
    from tests.fuzz.seeds import make_seed
    from tests.fuzz.trials import read_and_write


def main() -> None:
    """Ends with a document that fails, or when the time is over."""
    program, ending, *options = sys.argv
    with TemporaryDirectory() as corpus, TemporaryDirectory() as folder:
        Path(corpus, "seed").write_bytes(pack_parts(make_seed(ending)))

        def check(content: bytes) -> None:
            for file in Path(folder).iterdir():
                file.unlink()
            read_and_write(Path(folder, f"a{ending}"), content)

        atheris.Setup([program, corpus, *options], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
