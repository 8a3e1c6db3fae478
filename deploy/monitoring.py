"""Metrics of the programs and GPUs, and a Prometheus beside a stack that scrapes them."""

from __future__ import annotations

import os
import re
import shutil
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
#: Prometheus asks on this machine, at an address that no certificate covers.
_HTTPS = "    scheme: https\n    tls_config: {insecure_skip_verify: true}\n"
#: The processes that hold the models, TorchServe's workers and Ray's replicas, are shown apart.
_TORCHSERVE, _JAVA, _WORKERS = "torchserve", "java", "workers"
_REPLICA = "ray::ServeRepli"


def serve(run: Path, port: int) -> WSGIServer:
    """Answers for this stack on loopback, in threads. Raises OSError if the port is taken."""
    registry = CollectorRegistry()
    registry.register(_Collector(run))
    server, _ = start_http_server(port, "127.0.0.1", registry)
    return server


class _Collector(Collector):
    """The process groups that `deploy.launch` has recorded, and the GPUs."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        memory = GaugeMetricFamily(
            "babelgate_memory_bytes",
            "Resident memory of a program's processes; shared pages count in each.",
            labels=["program"],
        )
        started = GaugeMetricFamily(
            "babelgate_start_time_seconds",
            "Unix time at which a program was started last.",
            labels=["program"],
        )
        programs: dict[int, str] = {}
        for record in self._run.glob("*.group"):
            match read_object(record):
                case {"group": int(group), "since": float(since)}:
                    programs[group] = record.stem
                    started.add_metric([record.stem], since)
        for program, size in _measure_memory(programs, self._run).items():
            memory.add_metric([program], size)
        used = GaugeMetricFamily(
            "babelgate_gpu_memory_used_bytes",
            "Memory of a GPU that is taken, by whatever program.",
            labels=["gpu"],
        )
        total = GaugeMetricFamily(
            "babelgate_gpu_memory_bytes", "Memory that a GPU has.", labels=["gpu"]
        )
        for index, used_bytes, total_bytes in measure_gpu_memory():
            used.add_metric([index], used_bytes)
            total.add_metric([index], total_bytes)
        yield from (memory, started, used, total)


def _measure_memory(programs: Mapping[int, str], run: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.Error):
            group = os.getpgid(process.pid)
            program = programs.get(group)
            # Ray's workers leave their program's group.
            if program is None and launch.is_ours(process.pid, run):
                program = launch.find_program(process.pid)
            if program is None:
                continue
            is_worker = process.name() == _REPLICA or (
                program == _TORCHSERVE
                and process.pid != group
                and process.name() != _JAVA
            )
            shown = _WORKERS if is_worker else program
            sizes[shown] = sizes.get(shown, 0) + process.memory_info().rss
    return sizes


def write_configuration(stack: Stack) -> Path:
    """Copies configuration and rules into the run directory, with the stack's ports."""
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
    """The command that runs Prometheus in the run directory. Raises StackError."""
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
