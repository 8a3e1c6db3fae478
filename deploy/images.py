"""Builds the container image with buildah, on a base that mmdebstrap makes from Debian's own
packages. It needs no daemon and no registry.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from catalog.display import console
from deploy.stack import ROOT, StackError

CONTAINERFILE = ROOT / "deploy" / "image" / "Containerfile"
IMAGE = "localhost/babelgate"
#: Without namespaces, which a machine may refuse.
ISOLATION = "--isolation=chroot"

_BASE = "localhost/babelgate-base"
#: The release of Debian with Python 3.11, the version of python:3.11-slim.
_SUITE = "bookworm"
_PACKAGES = "ca-certificates,python3,python3-venv"
#: Removes this machine's files, which mmdebstrap copies.
_FORGET = """--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname\""""
_URL = "file://"
#: The build's folder for this machine's files that pip needs. Mounts leave empty folders.
_MOUNTED = "/mnt"


def build(buildah: Path, mmdebstrap: Path, *, is_fresh: bool = False) -> str:
    """Build the image, or the layers that have changed, and return its name. With `is_fresh`
    rebuild everything, with Debian's current packages. Raises StackError."""
    if is_fresh or not list_sizes(buildah, _BASE):
        console.print("Making the base from Debian's packages …")
        _make_base(buildah, mmdebstrap)
    command: list[str | Path] = [
        buildah, "bud", "--layers", "--format=docker", ISOLATION,
        f"--build-arg=BASE={_BASE}", f"--file={CONTAINERFILE}",
    ]  # fmt: skip
    console.print("Installing the Python packages …")
    _install_packages([*command, *(["--no-cache"] if is_fresh else [])])
    console.print("Building the image …")
    _run_program([*command, f"--tag={IMAGE}", ROOT])
    return IMAGE


def write_pip_configuration(options: Sequence[tuple[str, str]]) -> str:
    """Return a pip.conf with this machine's options and its files below _MOUNTED: a build may
    need the machine's indexes and certificates."""
    lines = (f"{name} = {value}" for name, value in options)
    text = "\n".join(["[global]", *lines, ""])
    return re.sub(rf"(?<=\s)({_URL})?(?=/)", rf"\g<0>{_MOUNTED}", text)


def list_places(options: Iterable[tuple[str, str]]) -> list[str]:
    """Return the files and folders of this machine that pip's options name."""
    words = (word.removeprefix(_URL) for _, value in options for word in value.split())
    paths = (Path(word) for word in words if word.startswith("/"))
    # The files of an index are in the folder above it.
    found = (path.parent if path.name == "simple" else path for path in paths)
    return sorted({str(path) for path in found if path.exists()})


def parse_pip_options(listed: str) -> list[tuple[str, str]]:
    """Parse the lines of `pip config list` into names and values; the last of a name wins."""
    found = re.findall(r"(?m)^(?:global|install|:env:)\.([\w-]+)='(.*)'$", listed)
    return list(dict(found).items())


def _install_packages(command: Sequence[str | Path]) -> None:
    """Build the stage with the packages, the only one in which pip's files are mounted."""
    # The environment overrides files, but pip lists it first.
    listed = _run_program([Path(sys.executable), "-m", "pip", "config", "list"])
    options = parse_pip_options("\n".join(reversed(listed.splitlines())))
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "pip.conf")
        secret.write_text(write_pip_configuration(options), "utf-8")
        places = list_places(options)
        mounts = (f"--volume={place}:{_MOUNTED}{place}:ro" for place in places)
        secrets = f"--secret=id=pip,src={secret}"
        _run_program([*command, "--target=packages", secrets, *mounts, ROOT])


def list_sizes(buildah: Path, image: str = IMAGE) -> list[str]:
    """Return the unpacked sizes of the images of a name, such as "2.31 GB"."""
    wanted = ["--format={{.Size}}", "--filter", f"reference={image}"]
    return _run_program([buildah, "images", *wanted]).splitlines()


def _make_base(buildah: Path, mmdebstrap: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "base.tar")
        options = ["--variant=minbase", f"--include={_PACKAGES}", _FORGET]
        _run_program([mmdebstrap, *options, _SUITE, archive])
        container = _run_program([buildah, "from", "scratch"])
        try:
            _run_program([buildah, "add", "--quiet", container, archive, "/"])
            _run_program([buildah, "commit", "--quiet", container, _BASE])
        finally:
            _run_program([buildah, "rm", container])


def _run_program(command: Sequence[str | Path]) -> str:
    """Run a program and return its output. Raises StackError with its last lines."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = "\n".join(done.stderr.splitlines()[-20:])
        raise StackError(f"{command[0]} {command[1]} failed:\n{said}")
    return done.stdout.strip()
