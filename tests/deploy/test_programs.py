"""Finding and installing the distribution's programs, with a scripted apt-get."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy import programs
from deploy.__main__ import app
from deploy.programs import (
    CHROMIUM,
    FOR_SOME_TESTS,
    FOR_TESTS,
    NGINX,
    POSTGRESQL,
    PROMETHEUS,
    find,
    install,
)
from deploy.stack import StackError

#: An apt-get that records its calls. `installs` are the programs that an installation adds.
APT = """#!/bin/sh
echo "apt-get $* $RUNLEVEL" >>{folder}/calls
case " $* " in *" {fails} "*) echo "no network" >&2; exit 100;; esac
case " $* " in *" install "*) for name in {installs}; do cp {folder}/env {folder}/$name; done;;
esac
"""

Calls = Callable[[], list[str]]
MakeMachine = Callable[..., Calls]


@pytest.fixture
def make_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeMachine:
    def make(
        installs: str = "", fails: str = "-", *, uid: int = 0, has_systemd: bool = False
    ) -> Calls:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("env", "cp"):
            (folder / name).symlink_to(f"/usr/bin/{name}")
        scripts = {
            "apt-get": APT.format(folder=folder, fails=fails, installs=installs),
            "systemctl": f'#!/bin/sh\necho "systemctl $*" >>{folder}/calls\n',
            "sudo": f'#!/bin/sh\necho "sudo $1" >>{folder}/calls\nshift\nexec "$@"\n',
        }
        for name, script in scripts.items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(programs, "_PLACES", ())
        monkeypatch.setattr(programs, "_POSTGRESQL_PLACES", "")
        systemd = folder if has_systemd else folder / "none"
        monkeypatch.setattr(programs, "_SYSTEMD", systemd)
        monkeypatch.setattr("os.geteuid", lambda: uid)
        return lambda: (folder / "calls").read_text().splitlines()

    return make


@pytest.mark.parametrize("uid", [0, 1000], ids=["root", "another user"])
def test_packages_are_installed_by_one_call_and_do_not_start(make_machine, uid):
    calls = make_machine("nginx chromium postgres", uid=uid, has_systemd=True)
    wanted = (NGINX, CHROMIUM, POSTGRESQL)
    assert find(NGINX) is None
    assert install(*wanted) == [find(program) for program in wanted]
    commands = [
        "apt-get -y update -qq 1",
        "systemctl mask nginx.service postgresql.service",
        "apt-get -y install -qq --no-install-recommends nginx-light chromium postgresql 1",
    ]
    through = ["sudo -n"] if uid else []
    assert calls() == [call for command in commands for call in (*through, command)]


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        pytest.param("update", "no network", id="no network"),
        pytest.param("install", "no network", id="no such package"),
        pytest.param("-", "", id="a package without the program"),
    ],
)
def test_what_cannot_be_installed_is_told_with_what_to_do(make_machine, fails, said):
    make_machine("nginx", fails=fails)
    with pytest.raises(StackError) as refused:
        install(NGINX, PROMETHEUS)
    first, *more = str(refused.value).splitlines()
    assert first == (
        "Missing, and cannot be installed from here: nginx, prometheus. Run "
        "`apt-get install nginx-light prometheus` as root, then this command again."
    )
    assert more == said.splitlines()


def test_a_machine_without_apt_is_told_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="cannot be installed from here: nginx"):
        install(NGINX)


ALL = ", ".join(program.name for program in (*FOR_TESTS, *FOR_SOME_TESTS))
NEEDED = ", ".join(program.name for program in FOR_TESTS)


@pytest.mark.parametrize(
    ("fails", "exit_code", "said"),
    [
        pytest.param("-", 0, f"Installed: {ALL}\n", id="all are there"),
        pytest.param(
            "chromium",
            0,
            f"need it are skipped.\nInstalled: {NEEDED}\n",
            id="one for some tests",
        ),
        pytest.param("nginx-light", 1, f"from here: {NEEDED}", id="one for all tests"),
    ],
)
def test_only_what_some_tests_need_may_be_missing(make_machine, fails, exit_code, said):
    make_machine((NEEDED if fails == "chromium" else ALL).replace(",", ""), fails=fails)
    done = CliRunner().invoke(app, ["prepare", "--for-tests"])
    assert (done.exit_code, said in done.output) == (exit_code, True), done.output
