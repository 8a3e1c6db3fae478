"""Finding and installing the distribution's programs, with an apt-get that is told how."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deploy import programs
from deploy.programs import NGINX, POSTGRESQL, PROMETHEUS, find, install
from deploy.stack import StackError

#: Writes down how it was called. `installs` is a file that an installation brings.
APT = """#!/bin/sh
echo "apt-get $* $RUNLEVEL" >>{folder}/calls
case " $* " in *" {fails} "*) echo "no network" >&2; exit 100;; esac
case " $* " in *" install "*) [ -z "{installs}" ] || cp {folder}/env {installs};; esac
"""
OTHERS = """#!/bin/sh
echo "{name} $*" >>{folder}/calls
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
        target = folder / installs if installs else ""
        scripts = {
            "apt-get": APT.format(folder=folder, fails=fails, installs=target),
            "systemctl": OTHERS.format(folder=folder, name="systemctl"),
            "sudo": f'#!/bin/sh\necho "sudo $1" >>{folder}/calls\nshift\nexec "$@"\n',
        }
        for name, script in scripts.items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(programs, "_PLACES", ())
        monkeypatch.setattr(programs, "_POSTGRESQL_PLACES", "")
        monkeypatch.setattr(
            programs, "_SYSTEMD", folder if has_systemd else folder / "none"
        )
        monkeypatch.setattr("os.geteuid", lambda: uid)
        return lambda: (folder / "calls").read_text().splitlines()

    return make


def test_a_package_is_installed_without_starting_its_server(make_machine: MakeMachine):
    calls = make_machine("prometheus")
    assert find(PROMETHEUS) is None
    assert install(PROMETHEUS) == find(PROMETHEUS)
    assert calls() == [
        "apt-get -y update -qq 1",
        "apt-get -y install -qq --no-install-recommends prometheus 1",
    ]


def test_where_systemd_runs_the_server_is_masked_before_it_is_there(
    make_machine: MakeMachine,
):
    calls = make_machine("nginx", has_systemd=True)
    install(NGINX)
    assert calls() == [
        "apt-get -y update -qq 1",
        "systemctl mask nginx.service",
        "apt-get -y install -qq --no-install-recommends nginx-light 1",
    ]


def test_a_server_that_has_another_name_than_its_program_is_masked(
    make_machine: MakeMachine,
):
    calls = make_machine("postgres", has_systemd=True)
    install(POSTGRESQL)
    assert "systemctl mask postgresql.service" in calls()


def test_another_user_than_root_installs_through_sudo(make_machine: MakeMachine):
    calls = make_machine("prometheus", uid=1000)
    install(PROMETHEUS)
    assert calls()[::2] == ["sudo -n", "sudo -n"]


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        pytest.param("update", "no network", id="no network"),
        pytest.param("install", "no network", id="no such package"),
        pytest.param("-", "", id="a package without the program"),
    ],
)
def test_what_cannot_be_installed_is_told_with_what_to_do(
    make_machine: MakeMachine, fails: str, said: str
):
    make_machine(fails=fails)
    with pytest.raises(StackError) as refused:
        install(PROMETHEUS)
    assert "run `apt-get install prometheus` as root, then `make monitor`" in str(
        refused.value
    )
    assert said in str(refused.value)


def test_a_machine_without_apt_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="nginx is missing"):
        install(NGINX)
