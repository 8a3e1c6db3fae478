"""The container image, built with buildah: its content, and a stack of its containers."""

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests
import yaml

from benchmarks.instruments.running import claim_port_offset
from deploy import images
from deploy.programs import BUILDAH, MMDEBSTRAP
from deploy.stack import DOOR, ROOT, Stack, move_ports
from tests.e2e.real_stack import is_ready, wait_until
from tests.programs import find_or_skip, run

pytestmark = [pytest.mark.image, pytest.mark.faults, pytest.mark.timeout(1800)]

#: The user of the image.
USER = 10001
PROGRAMS = ("torchserve", "registrar", "gateway", "documents", "nginx")
#: The volumes of a stack's containers: here folders of this machine.
VOLUMES = ("/run/babelgate", "/var/cache/babelgate", "/var/lib/babelgate", "/tmp")
METRICS = 7778
GREETING = {"src_lang": "en", "src_text": "Good morning", "tgt_lang": "fr"}


@dataclass(frozen=True)
class Container:
    """A container that runs commands next to this machine's processes, on its ports."""

    buildah: Path
    name: str
    folder: Path
    offset: int

    @property
    def run_dir(self) -> Path:
        return self._place(VOLUMES[0])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{DOOR + self.offset}"

    def make_volumes(self) -> None:
        for volume in VOLUMES:
            self._place(volume).mkdir()
            os.chown(self._place(volume), USER, USER)

    def command(self, *command: str) -> list[str]:
        mounts = (f"--volume={self._place(volume)}:{volume}" for volume in VOLUMES)
        options = [*mounts, images.ISOLATION, self.name, "--"]
        return [str(self.buildah), "run", *options, *command]

    def start(self, program: str) -> subprocess.Popen[bytes]:
        """Start one program by the image's entrypoint."""
        with (self.folder / f"{program}.log").open("wb") as log:
            return subprocess.Popen(
                self.command("/srv/babelgate/deploy/image/entrypoint", program),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _place(self, volume: str) -> Path:
        return self.folder / volume.strip("/").replace("/", "-")


@pytest.fixture(scope="module")
def buildah() -> Path:
    found = find_or_skip(BUILDAH)
    if os.geteuid() != 0:
        pytest.skip("buildah needs to be root for containers without namespaces")
    return found


@pytest.fixture(scope="module")
def image(buildah: Path) -> str:
    return images.build(buildah, find_or_skip(MMDEBSTRAP))


@pytest.fixture(scope="module")
def container(buildah, image, tmp_path_factory) -> Iterator[Container]:
    # The machine's limit, as runtimes set it; buildah's own default is too low.
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65536)
    name = run(buildah, "from", f"--ulimit=nofile={most}:{most}", image).strip()
    folder = tmp_path_factory.mktemp("image")
    made = Container(buildah, name, folder, claim_port_offset())
    made.make_volumes()
    try:
        yield made
    finally:
        run(buildah, "rm", name)


@pytest.fixture(scope="module")
def root(container: Container) -> Iterator[Path]:
    """The container's files, without those of the volumes."""
    yield Path(run(container.buildah, "mount", container.name).strip())
    run(container.buildah, "umount", container.name)


@pytest.fixture(scope="module")
def stack(container: Container) -> Iterator[list[psutil.Process]]:
    """A stack with a container for each program: the containers' processes."""
    entrypoint = ["/srv/babelgate/deploy/image/entrypoint", "prepare"]
    run(*container.command(*entrypoint, "--port-offset", str(container.offset)))
    write_metrics_server(container)
    processes = [container.start(program) for program in PROGRAMS]
    try:
        wait_until(lambda: is_ready(container.url), limit_s=180)
        yield [psutil.Process(process.pid) for process in processes]
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            process.wait(timeout=60)
        shutil.rmtree(find_metrics_folder(container), ignore_errors=True)


def find_metrics_folder(container: Container) -> Path:
    """Return the folder in memory of the counters that the containers here share."""
    shared = Stack(Path(VOLUMES[0]), Path()).metrics
    return shared.with_name(shared.name.replace(f"-{os.geteuid()}-", f"-{USER}-"))


def write_metrics_server(container: Container) -> None:
    """Write nginx's server for Prometheus, as in a Kubernetes pod."""
    manifest = ROOT / "deploy/kubernetes/base/gateway.yaml"
    resources = yaml.safe_load_all(manifest.read_text("utf-8"))
    (text,) = (r["data"]["metrics.conf"] for r in resources if r["kind"] == "ConfigMap")
    folder = container.run_dir / "nginx/conf.d"
    folder.mkdir()
    moved = text.replace(str(METRICS), str(METRICS + container.offset))
    (folder / "metrics.conf").write_text(moved, "utf-8")


def test_nothing_of_this_machine_is_in_the_image(root: Path):
    assert [path.name for path in (root / "opt").iterdir()] == ["babelgate"]
    assert not (root / "etc/pip.conf").exists()
    assert not (root / "etc/resolv.conf").read_text("utf-8")
    assert not list((root / "root").glob(".c*"))


@pytest.mark.usefixtures("stack")
def test_containers_translate_documents(container: Container):
    answer = requests.post(
        f"{container.url}/translate_file",
        data={"source": "en", "target": "fr"},
        files={"file": ("a.txt", GREETING["src_text"])},
        timeout=60,
    )
    assert answer.ok, answer.text
    found = requests.get(answer.json()["translatedFileUrl"], timeout=60)
    assert found.text.startswith("Bon"), found.text


def test_no_program_is_root(stack: list[psutil.Process]):
    family = [child for process in stack for child in process.children(recursive=True)]
    programs = [c for c in family if "buildah" not in "".join(c.cmdline()[:1])]
    assert len(programs) > len(PROGRAMS)
    assert {program.uids().real for program in programs} == {USER}


@pytest.mark.usefixtures("stack")
def test_the_health_check_of_the_image_passes(container: Container, image: str):
    found = json.loads(run(container.buildah, "inspect", "--type=image", image))
    settings = found["Docker"]["config"]
    assert settings["User"] == f"{USER}:{USER}"
    assert settings["Entrypoint"] == ["/srv/babelgate/deploy/image/entrypoint"]
    assert settings["Cmd"] == ["gateway"]
    check = settings["Healthcheck"]["Test"][1:]
    run(*container.command(*(move_ports(part, container.offset) for part in check)))


@pytest.mark.usefixtures("stack")
def test_prometheus_is_answered_at_a_port_of_its_own(container: Container):
    own = f"http://127.0.0.1:{METRICS + container.offset}"
    assert "babelgate_" in requests.get(f"{own}/metrics", timeout=30).text
    refused = requests.post(f"{own}/translate", json=GREETING, timeout=30)
    assert refused.status_code == 404


@pytest.mark.usefixtures("stack")
def test_nothing_is_written_beside_the_volumes(root: Path):
    written = run("find", root, "-xdev", "-uid", USER).split()
    assert set(written) <= {f"{root}{volume}" for volume in VOLUMES}


def test_ray_is_in_the_image(container: Container):
    pinned = (ROOT / "constraints.txt").read_text("utf-8")
    version = run(*container.command("ray", "--version")).split()[-1]
    assert f"ray=={version}\n" in pinned
