"""Runs workers on Ray, each a process with the model, on this machine or on a cluster."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from itertools import islice
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

import psutil

from catalog import ROOT
from clients.errors import ClientError, InputError
from contract import variables
from ray_backend.deployment import Dashboard, DashboardError, Machine, explain_needs
from ray_backend.nodes import LOOPBACK, PORTS, Node, read_head

if TYPE_CHECKING:
    from ray_backend.bulk.job import Answerer, Chunk

STOPPED = "Stopped. Repeat the same command to continue."
#: Seconds without progress after which a run reports the reason.
PATIENCE_S = 10.0
#: Seconds for which a cluster may be unreachable; its machines wait as long for their head.
GONE_S = 600.0
_LOOK_S = 2.0
#: Seconds that Ray may need to shut down: it waits for an unreachable cluster.
_END_S = 15.0
#: By default, Ray's clients would give up before the run does.
_RECONNECT_S = 900
#: The share of a machine's accelerator that a worker requests to get that kind.
_TRACE = 0.001
_ROUNDING = 1e-6
#: Chunks are far smaller. Ray accepts no less than 75 MiB.
_OBJECT_STORE_BYTES = 256 << 20
#: The most bytes of a temporary folder's path: with Ray's names, a socket's path has 107.
_LONGEST_FOLDER = 24
#: While a worker's model computes one chunk, another one is prepared.
_CHUNKS_AT_ONCE = 2
#: How many workers may end during a request before it is divided, and during one item before it
#: is given up. Workers also end by chance, with their machine, or by their other request.
_MOST_DEATHS, _MOST_DEATHS_ALONE = 2, 5
#: How often, per worker of the pool, a worker may end while it loads the model.
_MOST_FAILED_LOADS = 10
#: Without a cluster, Ray uses only the loopback interface, with a new token. All Rays of a
#: process share it, because the process reads it once.
_ALONE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_worker_prestart": "false",
    "RAY_prestart_worker_first_driver": "0",
}


@dataclass(frozen=True)
class WorkerPool:
    """The number of workers of a run, and the resources of each."""

    size: int
    cpus: int
    gpus: float
    #: The kind of the GPU; None for any.
    accelerator: str | None = None

    @property
    def needs(self) -> Mapping[str, float]:
        """The resources of a worker, by Ray's names."""
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        if self.accelerator:
            needs[f"accelerator_type:{self.accelerator}"] = _TRACE
        return needs


@dataclass(frozen=True)
class RayCluster:
    """A cluster that this machine belongs to."""

    #: The head's address and port.
    head: str
    #: This machine's address.
    address: str
    machines: tuple[Machine, ...]
    dashboard: Dashboard


def find_cluster(head: str) -> RayCluster:
    """Find a cluster by its dashboard, as Ray would wait for minutes. Raises ClientError if it
    does not answer, rejects the token in `BABELGATE_RAY_TOKEN_FILE`, or lacks this machine."""
    try:
        node = Node(LOOPBACK, ROOT, read_head(head, is_shared=False))
    except ValueError as error:
        raise InputError(
            f"--address {head}: expected a head such as 10.0.0.1:{PORTS.gcs}"
        ) from error
    url = variables.RAY_DASHBOARD_URL.given
    url = url or f"http://{node.find_on_head(PORTS.dashboard)}"
    dashboard = Dashboard(url, ROOT / variables.RAY_TOKEN_FILE.read())
    try:
        machines = dashboard.list_machines()
    except DashboardError as error:
        raise ClientError(f"no cluster at {node.head}: {error}") from error
    own = {each.address for nic in psutil.net_if_addrs().values() for each in nic}
    have = [machine.node_ip for machine in machines]
    found = [address for address in have if address in own]
    if not found:
        raise ClientError(
            f"this machine is not in the cluster at {node.head}, whose machines are "
            f"{', '.join(have)}: run the command on one of them"
        )
    return RayCluster(node.head, found[0], machines, dashboard)


def fit(pool: WorkerPool, machines: Sequence[Machine]) -> WorkerPool:
    """Return the pool with no more workers than fit on the machines while these are idle.
    Raises InputError if none fits."""
    places = sum(
        min(
            int(machine.resources_total.get(kind, 0) / amount + _ROUNDING)
            for kind, amount in pool.needs.items()
            if amount
        )
        for machine in machines
    )
    if places == 0:
        said = explain_needs(pool.needs, machines)
        raise InputError(f"no machine has room for a worker. {said}")
    return replace(pool, size=min(pool.size, places))


def list_free(cluster: RayCluster | None) -> list[Machine]:
    """Return the machines with their free resources. Raises DashboardError if the cluster is
    unreachable, and ClientError if Ray has ended on this machine."""
    import ray
    from ray._private import state  # no public function lists free resources

    if cluster:
        cluster.dashboard.list_machines()  # fails at once, while Ray would wait
    free = state.available_resources_per_node()
    if ray.get_runtime_context().get_node_id() not in free:
        raise ClientError("Ray ended on this machine; repeat the command to continue")
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    return [
        Machine(node_ip=addresses[number], state="ALIVE", resources_total=resources)
        for number, resources in free.items()
    ]


@dataclass
class _Request:
    """Items of a chunk that a worker gets at once."""

    chunk: Chunk
    places: range
    #: The answers to the whole chunk so far, by position.
    answers: dict[int, Any] = field(default_factory=dict)
    deaths: int = 0

    @property
    def slots(self) -> int:
        """The slots it needs: all of a worker once one has ended, so that it runs alone."""
        return _CHUNKS_AT_ONCE if self.deaths else 1

    @property
    def is_over(self) -> bool:
        return len(self.answers) == len(self.chunk.items)

    def go_on(self, answers: Sequence[Any] | None) -> list[_Request]:
        """Return the requests that remain after an answer or, without one, after the worker's
        end. Items that end their workers are divided until one is alone; its answer is None."""
        count = len(self.places)
        if answers is None:
            self.deaths += 1
            if self.deaths < (_MOST_DEATHS_ALONE if count == 1 else _MOST_DEATHS):
                return [self]
            if count > 1:
                halves = self.places[: count // 2], self.places[count // 2 :]
                return [_Request(self.chunk, half, self.answers) for half in halves]
        self.answers.update(zip(self.places, answers or [None], strict=True))
        return [self] if self.is_over else []


@dataclass
class RayExecutor:
    """Workers on Ray's machines, each with two requests at once."""

    pool: WorkerPool
    say: Callable[[str], None]
    cluster: RayCluster | None = None
    #: The workers, each with a call that returns once it is placed on a machine.
    _actors: dict[Any, Any] = field(default_factory=dict)
    #: The calls, each with its worker and its request; without a request, it loads the model.
    _calls: dict[Any, tuple[Any, _Request | None]] = field(default_factory=dict)
    _failed_loads: int = 0
    #: The reason for a stall, its start, and whether it was reported.
    _stall: tuple[str, float, bool] = ("", 0.0, False)

    def run(
        self, load: Callable[[], Answerer], chunks: Iterator[Chunk]
    ) -> Iterator[tuple[Chunk, Sequence[Any]]]:
        """Run a job, and yield each chunk with its answers. Raises ClientError."""
        for _ in range(self.pool.size):
            self._start(load)
        requests = (_Request(chunk, range(len(chunk.items))) for chunk in chunks)
        waiting = deque(islice(requests, 1))
        while waiting or any(request for _, request in self._calls.values()):
            if waiting and waiting[0].is_over:
                request = waiting.popleft()
                yield request.chunk, [a for _, a in sorted(request.answers.items())]
            elif waiting and (actor := self._find_worker(waiting[0].slots)):
                request = waiting.popleft()
                items = [request.chunk.items[place] for place in request.places]
                self._calls[actor.answer.remote(items)] = actor, request
            else:
                waiting.extendleft(reversed(self._finish_call(load)))
            if not waiting:
                waiting.extend(islice(requests, 1))

    def _start(self, load: Callable[[], Answerer]) -> None:
        import ray

        options = {
            "num_cpus": self.pool.cpus,
            "num_gpus": self.pool.gpus or None,
            "accelerator_type": self.pool.accelerator,
            "max_concurrency": _CHUNKS_AT_ONCE,
        }
        actor = ray.remote(BulkWorker).options(**options).remote()
        self._actors[actor] = actor.__ray_ready__.remote()
        self._calls[actor.load.remote(load, self.pool.cpus)] = actor, None

    def _find_worker(self, slots: int) -> Any:
        """Return the worker with the most free slots; None if it has too few."""
        free = Counter(dict.fromkeys(self._actors, _CHUNKS_AT_ONCE))
        for actor, request in self._calls.values():  # ended ones fall below 0
            free[actor] -= request.slots if request else _CHUNKS_AT_ONCE
        freest = max(free, key=free.__getitem__)
        return freest if free[freest] >= slots else None

    def _finish_call(self, load: Callable[[], Answerer]) -> list[_Request]:
        """Wait for a call, and return the requests that remain of it."""
        import ray
        from ray.exceptions import ObjectLostError, RayActorError, RayError

        asked, _ = ray.wait([*self._calls], timeout=_LOOK_S)
        if not asked:
            self._look()
            return []
        self.note_stall("", "", time.monotonic())
        (actor, request), answers = self._calls.pop(asked[0]), None
        try:
            answers = ray.get(asked[0])
            self._failed_loads = 0
        except RayError as error:
            self._failed_loads += request is None
            is_death = isinstance(error, RayActorError | ObjectLostError)
            if not is_death or self._failed_loads > _MOST_FAILED_LOADS * self.pool.size:
                # The last line names the exception, after a traceback.
                said = [line for line in str(error).splitlines() if line]
                raise ClientError(f"the work has failed: {said[-1]}") from error
            if self._actors.pop(actor, None):  # else the worker ended in another call
                ray.kill(actor)
                self._start(load)
        return request.go_on(answers) if request else []

    def _look(self) -> None:
        """Find out why no call returns."""
        import ray

        kind = reason = ""
        try:
            free = list_free(self.cluster)
        except DashboardError as error:
            kind = "the cluster"
            reason = str(error)
        else:
            if not ray.wait([*self._actors.values()], timeout=0)[0]:
                kind = "room"
                needs = explain_needs(self.pool.needs, free)
                reason = f"other work has taken it. {needs}"
        self.note_stall(kind, reason, time.monotonic())

    def note_stall(self, kind: str, reason: str, now_s: float) -> None:
        """Report the reason of a long stall once, if it is known. Raises ClientError if a
        cluster has been unreachable for too long."""
        known, since_s, is_said = self._stall
        if kind != known:
            since_s, is_said = now_s, False
        lasted_s = now_s - since_s
        if kind == "the cluster" and lasted_s >= GONE_S:
            raise ClientError(
                f"the cluster has been unreachable for {lasted_s:.0f} s: {reason}"
            )
        if kind and lasted_s >= PATIENCE_S and not is_said:
            is_said = True
            self.say(f"waiting for {kind}: {reason}")
        self._stall = kind, since_s, is_said


class BulkWorker:
    """A model in a separate process."""

    def load(self, load: Callable[[], Answerer], cpus: int) -> None:
        # Replaces Ray's value, the whole cores that are assigned to the worker.
        os.environ["OMP_NUM_THREADS"] = str(cpus)
        self._answer = load()

    def answer(self, items: Sequence[Any]) -> Sequence[Any]:
        return self._answer(items)


@contextmanager
def connect(
    pool: WorkerPool, say: Callable[[str], None], cluster: RayCluster | None = None
) -> Iterator[RayExecutor]:
    """Connect to a cluster, or start Ray on this machine. The workers end with the block, also
    if this process is killed. Raises ClientError, also if Ray does not start."""
    with ExitStack() as stack:
        options: dict[str, Any]
        if cluster:
            is_shared = int(cluster.address != LOOPBACK)
            os.environ |= {
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN_PATH": str(ROOT / variables.RAY_TOKEN_FILE.read()),
                "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": str(is_shared),
                "RAY_NUM_REDIS_GET_RETRIES": "1",
                "RAY_gcs_rpc_server_reconnect_timeout_s": str(_RECONNECT_S),
            }
            options = {"address": cluster.head, "_node_ip_address": cluster.address}
        else:
            folder = gettempdir()
            if len(os.fsencode(folder)) > _LONGEST_FOLDER:
                raise ClientError(
                    f"{folder}: the path is too long for Ray's sockets; set TMPDIR to a "
                    f"folder whose path has at most {_LONGEST_FOLDER} bytes"
                )
            os.environ |= _ALONE
            own = TemporaryDirectory(prefix="bulk-", ignore_cleanup_errors=True)
            options = {
                "address": "local",
                "num_cpus": pool.size * pool.cpus,
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
                "_temp_dir": stack.enter_context(own),
            }
        import ray  # Ray reads its variables now

        # Ray prints which machines have died, regardless of its options.
        stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # of any type, such as on a slow machine
            raise ClientError(f"Ray did not start: {error}") from error
        stack.callback(ray.shutdown)
        try:
            yield RayExecutor(pool, say, cluster)
        except (KeyboardInterrupt, ClientError) as error:
            is_stopped = isinstance(error, KeyboardInterrupt)
            code, said = (130, STOPPED) if is_stopped else (1, str(error))

            def end() -> None:
                say(said)
                os._exit(code)

            # Ray may wait for an unreachable cluster.
            timer = threading.Timer(_END_S, end)
            timer.daemon = True
            timer.start()
            raise
