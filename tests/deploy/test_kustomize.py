"""What the renderer of manifests refuses; test_kubernetes.py compares what it renders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.kustomize import render

WANTED = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
    "resources": ["app.yaml"],
}
APP = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "app"},
    "spec": {"type": "ClusterIP", "ports": [{"port": 80}]},
}
TARGET = {"kind": "Service", "name": "app"}


def write(folder: Path, change: dict[str, Any]) -> Path:
    (folder / "app.yaml").write_text(yaml.safe_dump(APP), "utf-8")
    wanted = yaml.safe_dump(WANTED | change)
    (folder / "kustomization.yaml").write_text(wanted, "utf-8")
    return folder


def merge(**changes: Any) -> dict[str, Any]:
    """A strategic merge patch of the service."""
    patch = {"kind": "Service", "metadata": {"name": "app"}} | changes
    return {"patches": [{"patch": yaml.safe_dump(patch)}]}


def edit(op: str, path: str, **target: str) -> dict[str, Any]:
    """A JSON patch of the service, or of another target."""
    patch = yaml.safe_dump([{"op": op, "path": path, "value": 1}])
    return {"patches": [{"target": TARGET | target, "patch": patch}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"namePrefix": "a-"}, "namePrefix", id="an unknown key"),
        pytest.param(
            {"labels": [{"pairs": {}, "includeSelectors": True}]},
            "labels.0.includeSelectors",
            id="an unknown key further down",
        ),
        pytest.param({"resources": ["../app.yaml"]}, "of this folder", id="outside"),
        pytest.param({"resources": ["app.yaml"] * 2}, "each resource once", id="twice"),
        pytest.param({"patches": [{"target": TARGET}]}, "path or patch", id="no patch"),
        pytest.param(merge(kind="Pod"), "found no .*Pod", id="merge into nothing"),
        pytest.param(merge(spec={"ports": []}), "ports: expected", id="merge a list"),
        pytest.param(merge(spec={"a": {"b": []}}), "b: expected", id="a new list"),
        pytest.param(merge(spec={"ports": 1}), "ports: expected", id="over a list"),
        pytest.param(merge(spec={"type": None}), "type: expected", id="merge a null"),
        pytest.param(merge(**{"$patch": "delete"}), "directive", id="a directive"),
        pytest.param(edit("add", "/a", name="b"), "found no .*b'", id="no target"),
        pytest.param(edit("remove", "/spec"), "0.op", id="an unknown operation"),
        pytest.param(edit("add", "/spec/a~1b"), "0.path", id="an escaped path"),
        pytest.param(
            edit("replace", "/spec/a"), "/spec/a: expected", id="replace none"
        ),
        pytest.param(edit("add", "/a/b"), "/a/b: expected", id="add to nothing"),
        pytest.param(edit("add", "/spec/ports/-"), "/-: expected", id="add an item"),
        pytest.param(
            edit("add", "/spec/ports/1/a"), "1/a: expected", id="no such item"
        ),
    ],
)
def test_what_is_not_understood_is_refused(change, message, tmp_path):
    with pytest.raises(ValueError, match=f"(?s){tmp_path}.*{message}"):
        render(write(tmp_path, change))
