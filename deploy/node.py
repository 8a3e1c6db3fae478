"""`python -m deploy.node`: becomes `ray start` for the stack of the run directory."""

import os
import shutil
from pathlib import Path

from contract import durable, variables
from deploy import stack
from ray_backend import nodes
from ray_backend.nodes import Node


def main() -> None:
    """Become `ray start`; never return. Raises OSError if the folders cannot be made."""
    run = variables.find_run()
    running = stack.read(run) if run else None
    assert running, f"{variables.RUN_DIR.name} is not the run directory of a stack"
    lay_out(running.node)
    command = nodes.write_command(running.node, variables.RAY_OPTIONS.read())
    ours = nodes.make_environment(running.node)
    os.execve(command[0], command, dict(os.environ) | ours)


def lay_out(node: Node) -> None:
    """Create the folders of a machine's Ray, which no other user may enter, and a short link to
    them. Temporary files of an earlier start are removed. Raises OSError."""
    for folder in (node.folder, node.sessions, node.state):
        folder.mkdir(parents=True, exist_ok=True)
    node.folder.chmod(0o700)  # Ray makes its own folders accessible to all users
    # Another user's link cannot be removed, which raises OSError, so it is never followed.
    node.link.unlink(missing_ok=True)
    node.link.symlink_to(node.sessions)
    for name in nodes.TEMPORARY:
        shutil.rmtree(node.sessions / name, ignore_errors=True)
        (node.sessions / name).mkdir()
    _remove_logs(node)
    _find_logs(node).symlink_to(node.sessions / "session_latest" / "logs")


def clear(node: Node) -> None:
    """Remove a machine's files of Ray but its logs, to forget the cluster. Raises OSError."""
    logs = node.sessions / "session_latest" / "logs"
    if logs.is_dir():
        _remove_logs(node)
        logs.chmod(0o700)
        try:
            durable.rename(logs.resolve(), _find_logs(node))
        except OSError:  # to another disk
            shutil.copytree(logs.resolve(), _find_logs(node))
    node.link.unlink(missing_ok=True)
    for folder in (node.sessions, node.state):
        shutil.rmtree(folder, ignore_errors=True)


def _find_logs(node: Node) -> Path:
    return node.folder.parent / "logs" / "ray"


def _remove_logs(node: Node) -> None:
    logs = _find_logs(node)
    if logs.is_symlink():
        logs.unlink()
    shutil.rmtree(logs, ignore_errors=True)


if __name__ == "__main__":
    main()
