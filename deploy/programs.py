"""Finds the programs that pip cannot install, and installs the distribution's packages."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from deploy.stack import StackError

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin", "/opt/homebrew/bin")
#: The folders of PostgreSQL's versions on Debian.
_POSTGRESQL_PLACES = "/usr/lib/postgresql/*/bin"
#: Exists if systemd runs.
_SYSTEMD = Path("/run/systemd/system")


@dataclass(frozen=True)
class Program:
    """A program of the distribution and its package."""

    name: str
    package: str
    #: systemd's name for the server that the package would start.
    service: str = ""


NGINX = Program("nginx", "nginx-light", "nginx")
#: The package also contains promtool.
PROMETHEUS = Program("prometheus", "prometheus", "prometheus")
SYSTEMD_ANALYZE = Program("systemd-analyze", "systemd")
#: For the npm packages that are clients of other APIs.
NODE, NPM = Program("node", "nodejs"), Program("npm", "npm")
POSTGRESQL = Program("postgres", "postgresql", "postgresql")
REDIS = Program("redis-server", "redis-server", "redis-server")
BUILDAH, MMDEBSTRAP = Program("buildah", "buildah"), Program("mmdebstrap", "mmdebstrap")
IPROUTE2 = Program("ip", "iproute2")
#: LibreOffice, which opens the files that `documents/` writes. Each part includes `soffice`.
OFFICE = (
    Program("lowriter", "libreoffice-writer"),
    Program("localc", "libreoffice-calc"),
    Program("loimpress", "libreoffice-impress"),
)
#: Renders the page in tests.
CHROMIUM = Program("chromium", "chromium")
#: Everything that a full test run needs from the distribution.
FOR_TESTS = (
    NGINX,
    PROMETHEUS,
    SYSTEMD_ANALYZE,
    NODE,
    NPM,
    *(Program(name, name) for name in ("curl", "openssl")),
)
#: Programs that some tests need: without them these tests are skipped.
FOR_SOME_TESTS = (POSTGRESQL, REDIS, *OFFICE, CHROMIUM, IPROUTE2, BUILDAH, MMDEBSTRAP)


def find(program: Program) -> Path | None:
    """Return a program's file, on the PATH or in a usual folder of distributions."""
    versions = glob(_POSTGRESQL_PLACES)
    path = os.pathsep.join((os.environ.get("PATH", ""), *_PLACES, *versions))
    found = shutil.which(program.name, path=path)
    return Path(found) if found else None


def install(*missing: Program) -> list[Path]:
    """Install the programs' packages in one call, as root or through sudo, and return the
    programs' files. Raises StackError."""
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    names = ", ".join(program.name for program in missing)
    packages = " ".join(program.package for program in missing)
    advice = (
        f"Missing, and cannot be installed from here: {names}. "
        f"Run `apt-get install {packages}` as root, then this command again."
    )
    if not shutil.which("apt-get") or (prefix and not shutil.which("sudo")):
        raise StackError(advice)
    # The packages would start their servers, now and at each boot. RUNLEVEL=1 prevents that
    # for init scripts, and a mask for systemd, which ignores RUNLEVEL.
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "-y"]
    services = [f"{program.service}.service" for program in missing if program.service]
    is_masked = services and _SYSTEMD.is_dir()
    for command in (
        [*apt, "update", "-qq"],
        *([["systemctl", "mask", *services]] if is_masked else []),
        [*apt, "install", "-qq", "--no-install-recommends", *packages.split()],
    ):
        done = subprocess.run([*prefix, *command], capture_output=True, text=True)
        if done.returncode != 0:
            raise StackError(f"{advice}\n{done.stderr.strip()}")
    found = [file for program in missing if (file := find(program))]
    if len(found) < len(missing):
        raise StackError(advice)
    return found
