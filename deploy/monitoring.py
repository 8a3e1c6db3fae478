"""Metrics of the programs and GPUs, and the Prometheus that scrapes a stack."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from wsgiref.simple_server import WSGIServer

import psutil
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from catalog.devices import measure_gpu_memory
from deploy import launch
from deploy.stack import ROOT, Stack, StackError, is_taken, move_ports, read_object

MONITORING = ROOT / "deploy" / "monitoring"
#: Prometheus connects to loopback, an address that no certificate covers.
_HTTPS = "    scheme: https\n    tls_config: {insecure_skip_verify: true}\n"
#: The processes with models, TorchServe's workers and Ray's replicas, are counted separately.
_TORCHSERVE, _JAVA, _WORKERS = "torchserve", "java", "workers"
_REPLICA = "ray::ServeRepli"


def serve(run: Path, port: int) -> WSGIServer:
    """Serve a stack's metrics on loopback, in threads. Raises OSError if the port is taken."""
    registry = CollectorRegistry()
    registry.register(_Collector(run))
    server, _ = start_http_server(port, "127.0.0.1", registry)
    return server


class _Collector(Collector):
    """The metrics of the programs that `deploy.launch` has recorded, and of the GPUs."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        leaders: dict[str, int] = {}
        started: dict[str, float] = {}
        for record in self._run.glob("*.group"):
            match read_object(record):
                case {"group": int(group), "since": float(since)}:
                    leaders[record.stem], started[record.stem] = group, since
        yield _make_gauge(
            "babelgate_memory_bytes",
            "Resident memory of a program's processes; shared pages count for each.",
            "program",
            _measure_memory(leaders, self._run),
        )
        yield _make_gauge(
            "babelgate_start_time_seconds",
            "Unix time at which a program was last started.",
            "program",
            started,
        )
        gpus = measure_gpu_memory()
        yield _make_gauge(
            "babelgate_gpu_memory_used_bytes",
            "GPU memory in use, by any program.",
            "gpu",
            {index: used_bytes for index, used_bytes, _ in gpus},
        )
        yield _make_gauge(
            "babelgate_gpu_memory_bytes",
            "Total memory of a GPU.",
            "gpu",
            {index: total_bytes for index, _, total_bytes in gpus},
        )


def _make_gauge(
    name: str, meaning: str, label: str, values: Mapping[str, float]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, meaning, labels=[label])
    for shown, value in values.items():
        gauge.add_metric([shown], value)
    return gauge


def _measure_memory(leaders: Mapping[str, int], run: Path) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            program = launch.find_program(process, run)
            if program is None or program not in leaders:
                continue
            is_worker = process.name() == _REPLICA or (
                program == _TORCHSERVE
                and process.pid != leaders[program]
                and process.name() != _JAVA
            )
            sizes[_WORKERS if is_worker else program] += process.memory_info().rss
    return sizes


def write_configuration(stack: Stack) -> Path:
    """Copy configuration and rules into the run directory, with the stack's ports."""
    folder = stack.run / "prometheus"
    folder.mkdir(exist_ok=True)
    configuration = folder / "prometheus.yml"
    text = (MONITORING / "prometheus.yml").read_text("utf-8")
    other = "torchserve" if stack.server == "ray" else "ray"
    text = re.sub(rf"(?m)^  - job_name: {other}\n(    .*\n|\n)*", "", text)
    text = text.replace("../../run/", "../")
    if stack.tls:
        text = text.replace("job_name: gateway\n", f"job_name: gateway\n{_HTTPS}")
    configuration.write_text(move_ports(text, stack.port_offset), "utf-8")
    shutil.copy(MONITORING / "rules.yml", folder)
    return configuration


def make_command(stack: Stack, program: Path, port: int) -> list[str]:
    """Return the command that runs Prometheus in the run directory. Raises StackError."""
    if is_taken(port):
        raise StackError(
            f"Port {port} is taken by another program. Stop it, or choose another port "
            "with --port."
        )
    configuration = write_configuration(stack)
    return [
        str(program),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={configuration.parent / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
