"""Ray does the work: Ray Data streams chunks from readers to a pool of workers, each of which
is a process with the model. What is not answered yet is bounded. `start` and `join`
say whose machines these are.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from clients.errors import ClientError
from clients.sources import Source
from ray_backend.bulk.joining import Cluster
from ray_backend.bulk.pieces import CHUNKS, REPORTS, Finished, Report, Task
from ray_backend.bulk.room import Pool
from ray_backend.bulk.watch import Sight, Watch
from ray_backend.dashboard import DashboardError, Machine

#: What Ray Data calls the process of a `_Worker`.
_WORKER = "MapWorker"
#: How many threads libraries compute with.
_THREADS = "OMP_NUM_THREADS"
#: Chunks are far smaller. Ray takes no less than 75 MiB.
_OBJECT_STORE_BYTES = 256 << 20
#: Bytes of the name of a temporary folder: those of a socket's are 107 with Ray's own.
_LONGEST_FOLDER = 24
#: The readers of a worker. They take a part of its cores, so that workers on all cores of a
#: cluster leave room for somebody who reads.
_READER_CPUS = 0.01
_READERS = 2
#: While one chunk is in the model, another one is read or written.
_CHUNKS_AT_ONCE = 2
#: Of `ray.data._internal.util`.
_ADVICE = re.compile(r"Failed to .* attempts \(|To change retry attempts")
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
        mark = task.workspace.leave_mark()
        rows = [pa.table({"sources": [_SOURCES.dump_json(group)]}) for group in groups]
        chunks = ray.data.from_arrow(rows).map_batches(
            _Reader(task, mark),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=_READER_CPUS,
            compute=ray.data.TaskPoolStrategy(
                size=min(len(groups), _READERS * self.pool.size)
            ),
        )
        reports = chunks.map_batches(
            _Worker,
            fn_constructor_args=(task, mark, self.pool.cpus),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=self.pool.cpus - _READERS * _READER_CPUS,
            num_gpus=self.pool.gpus or None,
            accelerator_type=self.pool.accelerator,
            compute=ray.data.ActorPoolStrategy(
                size=self.pool.size,
                enable_true_multi_threading=True,
                max_concurrent_calls_per_actor=_CHUNKS_AT_ONCE,
            ),
        )
        try:
            # Without a prefetched block each report comes as soon as it is there.
            for block in reports.iter_batches(
                batch_size=None, batch_format="pyarrow", prefetch_batches=0
            ):
                for report in block["reports"].to_pylist():
                    yield from REPORTS.validate_json(report)
        except (RayError, UserCodeException) as error:
            raise ClientError(_explain(error)) from error

    def assemble(self, task: Task, source: Source, parts: int) -> Future[Finished]:
        """As `Machines.assemble`."""
        import ray

        assemble = ray.remote(num_cpus=_READER_CPUS)(_assemble)
        future: Future[Finished] = Future()
        asked = assemble.remote(task, source, parts).future()
        asked.add_done_callback(partial(_pass_on, future))
        return future


@contextmanager
def start(pool: Pool) -> Iterator[RayMachines]:
    """A Ray of this machine. It has ended afterwards, also if this process is killed."""
    _check_temporary()
    # Ray reads them when it is imported.
    os.environ.update(_ALONE, RAY_AUTH_TOKEN=_make_token())
    with _prepare() as folder, _run(_describe_own(pool, folder)):
        yield RayMachines(pool)


@contextmanager
def join(
    pool: Pool, cluster: Cluster, say: Callable[[str], None]
) -> Iterator[RayMachines]:
    """The machines of a cluster. The workers have ended afterwards, also if this process is
    killed. Says what the run waits for, if it does."""
    os.environ.update(cluster.environment)
    options = {"address": cluster.head, "_node_ip_address": cluster.address}
    with _prepare(), Watch(partial(_look, cluster), pool, say) as watch:
        try:
            with _run(options):
                yield RayMachines(pool)
        except KeyboardInterrupt as error:
            if watch.lost:
                raise ClientError(watch.lost) from error
            raise


def _describe_own(pool: Pool, folder: Path) -> Mapping[str, Any]:
    return {
        "address": "local",
        "num_cpus": pool.size * pool.cpus + _READERS,
        "include_dashboard": False,
        "object_store_memory": _OBJECT_STORE_BYTES,
        "_temp_dir": str(folder),
    }


@contextmanager
def _prepare() -> Iterator[Path]:
    """A folder for temporary files, where what Ray says goes."""
    with (
        tempfile.TemporaryDirectory(
            prefix="bulk-", ignore_cleanup_errors=True
        ) as folder,
        _hush(Path(folder, "said")),
    ):
        yield Path(folder)


@contextmanager
def _run(options: Mapping[str, Any]) -> Iterator[None]:
    """Ray while the block lasts. Raises ClientError if it does not start."""
    import ray
    from ray.exceptions import RayError

    try:
        ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ClientError(f"Ray does not start: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _look(cluster: Cluster) -> Sight:
    """What the cluster does for this run. Raises DashboardError."""
    import ray
    from ray._private import state  # nothing public tells what is free where

    machines = cluster.dashboard.list_machines()
    if not ray.is_initialized():
        return Sight(0, 0, machines)
    try:
        own = ray.get_runtime_context()
        actors = state.actors(job_id=ray.JobID.from_hex(own.get_job_id())).values()
        free = state.available_resources_per_node()
        nodes = ray.nodes()
        node = own.get_node_id()
    except Exception as error:  # of many types while Ray is being shut down
        raise DashboardError(str(error)) from error
    workers = [
        each["Address"]
        for each in actors
        if _WORKER in each["ActorClassName"] and each["State"] != "DEAD"
    ]
    alive = {each["NodeID"] for each in nodes if each["Alive"]}
    managers = {(n["NodeManagerAddress"], n["NodeManagerPort"]) for n in nodes}
    # A worker without a process is with the manager of a node, or nowhere.
    places = [(each["IPAddress"], each["Port"]) for each in workers]
    placed = [place for place in places if all(place) and place not in managers]
    return Sight(
        len(placed),
        len(places) - len(placed),
        _describe_free(nodes, free),
        is_homeless=node not in alive,
    )


def _describe_free(
    nodes: Sequence[Mapping[str, Any]], free: Mapping[str, Mapping[str, float]]
) -> tuple[Machine, ...]:
    """The machines with what nobody has taken there."""
    return tuple(
        Machine(
            node_ip=node["NodeManagerAddress"],
            state="ALIVE",
            resources_total=dict(free[node["NodeID"]]),
        )
        for node in nodes
        if node["NodeID"] in free
    )


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
    mark: str

    def __call__(self, rows: Any) -> Iterator[Any]:
        import pyarrow as pa

        self.task.workspace.find_mark(self.mark)
        for sources in rows["sources"].to_pylist():
            for chunk in self.task.read(_SOURCES.validate_json(sources)):
                yield pa.table({"chunk": [CHUNKS.dump_json(chunk)]})


class _Worker:
    """A worker in its own process."""

    def __init__(self, task: Task, mark: str, cpus: int) -> None:
        task.workspace.find_mark(mark)
        # Ray sets it to the whole cores that the worker leaves to itself.
        os.environ[_THREADS] = str(cpus)
        self._worker = task.load()

    def __call__(self, rows: Any) -> Any:
        import pyarrow as pa

        chunks = [CHUNKS.validate_json(chunk) for chunk in rows["chunk"].to_pylist()]
        reports = [report for chunk in chunks for report in self._worker(chunk)]
        return pa.table({"reports": [REPORTS.dump_json(tuple(reports))]})


def _pass_on(future: Future[Finished], asked: Future[Finished]) -> None:
    from ray.exceptions import RayError

    try:
        future.set_result(asked.result())
    except RayError as error:
        future.set_exception(ClientError(_explain(error)))


def _assemble(task: Task, source: Source, parts: int) -> Finished:
    return task.assemble(source, parts)


def _explain(error: Exception) -> str:
    """Ray's errors begin with a traceback; what was raised is at the end, but for what Ray
    advises after several attempts."""
    said = [
        line for line in str(error).splitlines() if line and not _ADVICE.match(line)
    ]
    return f"the work has failed: {said[-1]}"
