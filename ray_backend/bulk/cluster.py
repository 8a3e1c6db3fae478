"""Ray does the work: Ray Data streams chunks from readers to a pool of workers, each of which
is a process with the model. What is not answered yet is bounded.
"""

from __future__ import annotations

import logging
import os
import secrets
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from clients.errors import ClientError
from clients.sources import Source
from contract import variables
from ray_backend.bulk.pieces import CHUNKS, REPORTS, Finished, Report, Task
from torchserve_backend.catalog import ROOT

#: Chunks are far smaller. Ray takes no less than 75 MiB.
_OBJECT_STORE_BYTES = 256 << 20
#: Bytes of the name of a temporary folder: those of a socket's are 107 with Ray's own.
_LONGEST_FOLDER = 24
_READER_CPUS = 0.5
_READERS = 2
#: While one chunk is in the model, another one is read or written.
_CHUNKS_AT_ONCE = 2
_SOURCES = TypeAdapter(tuple[Source, ...])
#: The numbers of the process's standard output and standard error.
_STANDARD = (1, 2)
#: Without a cluster everything stays on the loopback interface, behind a token of its own.
_ALONE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class Pool:
    """The workers of a run, and what each takes."""

    size: int
    cpus: int
    gpus: float


@dataclass(frozen=True)
class RayMachines:
    """A cluster, or this machine alone."""

    pool: Pool

    def run(self, task: Task, groups: Sequence[tuple[Source, ...]]) -> Iterator[Report]:
        """As `Machines.run`."""
        import pyarrow as pa
        import ray.data
        from ray.data.exceptions import UserCodeException
        from ray.exceptions import RayError

        _configure()
        rows = [pa.table({"sources": [_SOURCES.dump_json(group)]}) for group in groups]
        chunks = ray.data.from_arrow(rows).map_batches(
            _Reader(task),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=_READER_CPUS,
            compute=ray.data.TaskPoolStrategy(
                size=min(len(groups), _READERS * self.pool.size)
            ),
        )
        reports = chunks.map_batches(
            _Worker,
            fn_constructor_args=(task,),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=self.pool.cpus,
            num_gpus=self.pool.gpus or None,
            compute=ray.data.ActorPoolStrategy(
                size=self.pool.size,
                enable_true_multi_threading=True,
                max_concurrent_calls_per_actor=_CHUNKS_AT_ONCE,
            ),
        )
        try:
            for row in reports.iter_rows():
                yield from REPORTS.validate_json(row["reports"])
        except (RayError, UserCodeException) as error:
            raise ClientError(_explain(error)) from error

    def assemble(self, task: Task, source: Source, parts: int) -> Future[Finished]:
        """As `Machines.assemble`."""
        import ray

        assemble = ray.remote(num_cpus=_READER_CPUS)(_assemble)
        future: Future[Finished] = assemble.remote(task, source, parts).future()
        return future


@contextmanager
def connect(pool: Pool, address: str | None) -> Iterator[RayMachines]:
    """The machines of the cluster at `address`, or this one. What was started here has
    ended afterwards, also if this process is killed."""
    _check_temporary()
    # Ray reads them when it is imported.
    if address is None:
        os.environ.update(_ALONE, RAY_AUTH_TOKEN=_make_token())
    else:
        token = ROOT / variables.RAY_TOKEN_FILE.read()
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
    import ray

    with tempfile.TemporaryDirectory(
        prefix="bulk-", ignore_cleanup_errors=True
    ) as folder:
        options: dict[str, Any] = {"address": address, "log_to_driver": False}
        if address is None:
            options |= {
                "address": "local",
                "num_cpus": pool.size * pool.cpus + _READERS,
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
                "_temp_dir": folder,
            }
        with _hush(Path(folder, "said")):
            try:
                ray.init(**options, logging_level=logging.CRITICAL)
            except (OSError, RuntimeError, ValueError) as error:
                raise ClientError(f"Ray does not start: {error}") from error
            try:
                yield RayMachines(pool)
            finally:
                ray.shutdown()


@cache
def _make_token() -> str:
    """The same for all clusters of a process: Ray reads it once."""
    return secrets.token_hex(32)


@contextmanager
def _hush(path: Path) -> Iterator[None]:
    """What Ray's libraries write past their log files goes to a file. Our own standard error
    stays."""
    kept = [os.dup(number) for number in _STANDARD]
    try:
        with path.open("ab") as file:
            for number in _STANDARD:
                os.dup2(file.fileno(), number)
        with (
            os.fdopen(kept[1], "w", buffering=1, closefd=False) as ours,
            redirect_stderr(ours),
        ):
            yield
    finally:
        for number, old in zip(_STANDARD, kept, strict=True):
            os.dup2(old, number)
            os.close(old)


def _check_temporary() -> None:
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        raise ClientError(
            f"{folder}: too long for the sockets that Ray makes there; give a folder of at "
            f"most {_LONGEST_FOLDER} bytes in TMPDIR"
        )


def _configure() -> None:
    from ray.data import DataContext

    # Its errors are raised as well, and its warnings are about options of ours.
    warnings.filterwarnings("ignore", module=r"ray\.")
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    # A chunk is a block of its own: larger ones would wait until they are full.
    context.target_max_block_size = context.target_min_block_size = 1


@dataclass(frozen=True)
class _Reader:
    """Reads the sources of each row."""

    task: Task

    def __call__(self, rows: Any) -> Iterator[Any]:
        import pyarrow as pa

        for sources in rows["sources"].to_pylist():
            for chunk in self.task.read(_SOURCES.validate_json(sources)):
                yield pa.table({"chunk": [CHUNKS.dump_json(chunk)]})


class _Worker:
    """A worker in its own process."""

    def __init__(self, task: Task) -> None:
        self._worker = task.load()

    def __call__(self, rows: Any) -> Any:
        import pyarrow as pa

        chunks = [CHUNKS.validate_json(chunk) for chunk in rows["chunk"].to_pylist()]
        reports = [report for chunk in chunks for report in self._worker(chunk)]
        return pa.table({"reports": [REPORTS.dump_json(tuple(reports))]})


def _assemble(task: Task, source: Source, parts: int) -> Finished:
    return task.assemble(source, parts)


def _explain(error: Exception) -> str:
    """Ray's errors begin with a traceback; what was raised is at the end."""
    return f"the work has failed: {str(error).strip().splitlines()[-1]}"
