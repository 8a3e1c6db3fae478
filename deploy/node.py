"""`python -m deploy.node`: becomes `ray start` for the stack of the run directory."""

import os
import shutil
from pathlib import Path

from contract import durable, variables
from deploy import stack
from ray_backend import nodes
from ray_backend.nodes import Node


def main() -> None:
    """Never returns. Raises OSError if the folders cannot be made."""
    run = variables.find_run()
    running = stack.read(run) if run else None
    assert running, f"{variables.RUN_DIR.name} is not that of a stack"
    lay_out(running.node)
    command = nodes.write_command(running.node, variables.RAY_OPTIONS.read())
    environment = dict(os.environ) | nodes.make_environment(running.node)
    os.execve(command[0], command, environment)


def lay_out(node: Node) -> None:
    """Makes the folders of a machine's Ray, which no other user may enter, and their short
    name. What an earlier life has left in those for temporary files is removed. Raises
    OSError."""
    for folder in (node.folder, node.sessions, node.state):
        folder.mkdir(parents=True, exist_ok=True)
    node.folder.chmod(0o700)  # Ray opens its own folders to everybody
    # A link of another user's cannot be removed, and is not followed.
    node.link.unlink(missing_ok=True)
    node.link.symlink_to(node.sessions)
    for name in nodes.TEMPORARY:
        shutil.rmtree(node.sessions / name, ignore_errors=True)
        (node.sessions / name).mkdir()
    _remove_logs(node)
    _find_logs(node).symlink_to(node.sessions / "session_latest" / "logs")


def clear(node: Node) -> None:
    """Removes what a machine's Ray has left but its logs: the cluster is forgotten. Raises
    OSError."""
    logs = node.sessions / "session_latest" / "logs"
    if logs.is_dir():
        _remove_logs(node)
        durable.rename(logs.resolve(), _find_logs(node))
    node.link.unlink(missing_ok=True)
    for folder in (node.sessions, node.state):
        shutil.rmtree(folder, ignore_errors=True)


def _find_logs(node: Node) -> Path:
    """Find the logs where operators look for them."""
    return node.folder.parent / "logs" / "ray"


def _remove_logs(node: Node) -> None:
    logs = _find_logs(node)
    if logs.is_symlink():
        logs.unlink()
    shutil.rmtree(logs, ignore_errors=True)


if __name__ == "__main__":
    main()
