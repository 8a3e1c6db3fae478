"""How long a batch takes: a table of measured sizes, with straight lines between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


@dataclass(frozen=True)
class Service:
    """Milliseconds of a batch, by its rows, the smallest first."""

    points: tuple[tuple[float, float], ...]

    def scale(self, ratio: float) -> Service:
        """The same with all times multiplied."""
        return Service(tuple((rows, ms * ratio) for rows, ms in self.points))

    def find_ms(self, rows: float) -> float:
        """Milliseconds of a batch. Beyond the table, the line of its last two sizes goes
        on, and below it the first size's time holds."""
        if rows <= self.points[0][0] or len(self.points) == 1:
            return self.points[0][1]
        lines = list(pairwise(self.points))
        (size, ms), (next_size, next_ms) = next(
            (line for line in lines if rows <= line[1][0]), lines[-1]
        )
        return ms + (rows - size) * (next_ms - ms) / (next_size - size)

    def tabulate(self, batch_size: int) -> list[float]:
        """Seconds for each number of rows up to a batch's size, none included."""
        return [0.0, *(self.find_ms(n) / 1000 for n in range(1, batch_size + 1))]

    def find_capacity(self, batch_size: int) -> float:
        """Rows/s of one work that always has full batches."""
        return batch_size / self.find_ms(batch_size) * 1000


class ServiceEntry(BaseModel):
    """One of: a table, a line, or the file of `python -m benchmarks study`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    #: Milliseconds of a batch, by its rows.
    ms: Mapping[Annotated[int, Field(ge=1)], Positive] = {}
    #: A batch takes `fixed_ms`, and `row_ms` for each row.
    fixed_ms: Annotated[float, Field(ge=0, strict=False)] | None = None
    row_ms: Annotated[float, Field(ge=0, strict=False)] | None = None
    file: str | None = None
    #: The mean tokens of a row in what was measured.
    tokens: Positive = 8.0

    @model_validator(mode="after")
    def _check_kind(self) -> ServiceEntry:
        is_line = self.fixed_ms is not None and self.row_ms is not None
        has_part = self.fixed_ms is not None or self.row_ms is not None
        if [bool(self.ms), has_part, self.file is not None].count(True) != 1:
            raise ValueError("expected one of ms, file, or fixed_ms with row_ms")
        if has_part and not (is_line and (self.fixed_ms or self.row_ms)):
            raise ValueError("expected both fixed_ms and row_ms, and one above 0")
        return self

    def make_service(self) -> Service:
        """Raises ValueError if the file is not as `study` writes it."""
        if self.file is not None:
            return Service(_read_study(Path(self.file)))
        if self.fixed_ms is not None and self.row_ms is not None:
            first = self.fixed_ms + self.row_ms
            return Service(((1, first), (2, first + self.row_ms)))
        return Service(tuple(sorted(self.ms.items())))


def _read_study(path: Path) -> tuple[tuple[float, float], ...]:
    try:
        measured = json.loads(path.read_text("utf-8"))["results"]["measured"]
        points = {int(m["batch"]): float(m["ms_per_batch"]["median"]) for m in measured}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected what `python -m benchmarks study` writes ({error!r})"
        ) from error
    if not points or len(points) < len(measured):
        raise ValueError(f"{path}: expected one device with each batch size once")
    return tuple(sorted(points.items()))
