"""Runs Prometheus beside a stack, with the files of `deploy/monitoring`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from deploy.stack import ROOT, Stack, StackError, is_taken, move_ports

MONITORING = ROOT / "deploy" / "monitoring"
#: Prometheus asks on this machine, at an address that no certificate covers.
_HTTPS = "    scheme: https\n    tls_config: {insecure_skip_verify: true}\n"


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
