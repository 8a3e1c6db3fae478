"""Checks edited configuration files with the programs that read them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from contract import variables
from deploy.programs import find_java_home
from deploy.stack import ROOT, Stack, StackError


def check_edited(stack: Stack, nginx: Path, map_path: Path) -> None:
    """Has nginx and Gunicorn check the edited files. Raises StackError with their words."""
    gunicorn = Path(sys.executable).with_name("gunicorn")
    gunicorn_file = f"{ROOT}/gateway/gunicorn.conf.py"
    checks = {
        "nginx/nginx.conf": [
            *(str(nginx), "-t", "-q", "-p", f"{stack.run}/nginx/"),
            *("-c", str(stack.write_nginx(stack.run / "nginx" / "edited"))),
        ],
        "gateway/gunicorn.conf.py": [
            *(str(gunicorn), "--check-config", "--config", gunicorn_file),
            "gateway.app:create_app()",
        ],
    }
    environment = stack.environment(find_java_home()) | {
        variables.MAP.name: str(map_path)
    }
    for file, command in checks.items():
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment
        )
        if done.returncode != 0:
            raise StackError(
                f"{file} is not accepted, nothing was changed:\n{done.stderr.strip()}"
            )
