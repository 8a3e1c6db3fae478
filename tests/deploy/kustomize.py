"""Renders a kustomization as `kubectl kustomize` does, with only the features of kustomize that
our manifests use. Others fail, so that no test checks a resource that no cluster would get."""

import json
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]

_PARTS = {
    "apiVersion", "kind", "namespace", "resources", "labels", "configMapGenerator",
    "patches", "images",
}  # fmt: skip


def render(folder: Path) -> list[Resource]:
    """The resources of a folder's kustomization, without hashes in the names of ConfigMaps."""
    (wanted,) = _load(folder, "kustomization.yaml")
    assert wanted.keys() <= _PARTS, f"{folder}: {wanted.keys() - _PARTS}"
    resources: list[Resource] = []
    for name in wanted["resources"]:
        is_folder = (folder / name).is_dir()
        resources += render(folder / name) if is_folder else _load(folder, name)
    for made in wanted.get("configMapGenerator", ()):
        data = {name: (folder / name).read_text("utf-8") for name in made["files"]}
        metadata = {"name": made["name"]}
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        resources.append({**kind, "metadata": metadata, "data": data})
    for patch in wanted.get("patches", ()):
        _patch(folder, resources, patch)
    images = wanted.get("images", ())
    new_images = {i["name"]: f"{i['newName']}:{i['newTag']}" for i in images}
    for resource in resources:
        metadata = resource["metadata"]
        for labels in wanted.get("labels", ()):
            assert labels.keys() == {"pairs"}, labels
            metadata["labels"] = metadata.get("labels", {}) | labels["pairs"]
        if "namespace" in wanted:
            # Our only resource without a namespace is the namespace itself.
            key = "name" if resource["kind"] == "Namespace" else "namespace"
            metadata[key] = wanted["namespace"]
        _rename_images(resource, new_images)
    return resources


def _load(folder: Path, name: str) -> list[Resource]:
    """Load the documents of a file, with a copy of its target in place of each alias."""
    documents = yaml.safe_load_all((folder / name).read_text("utf-8"))
    found: list[Resource] = json.loads(json.dumps(list(documents)))
    return found


def _patch(folder: Path, resources: list[Resource], patch: Any) -> None:
    """Edit a resource with a JSON patch, or without a target with a strategic merge patch."""
    text = patch.get("patch") or (folder / patch["path"]).read_text("utf-8")
    content = yaml.safe_load(text)
    named = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    assert len(named) == len(resources)
    if "target" not in patch:
        _merge(named[content["kind"], content["metadata"]["name"]], content)
        return
    for operation in content:
        _edit(named[patch["target"]["kind"], patch["target"]["name"]], operation)


def _merge(old: Resource, new: Resource) -> None:
    for key, value in new.items():
        # A null would delete the key, and lists have special rules for merging.
        assert isinstance(value, dict | str | int | float), key
        if isinstance(value, dict) and key in old:
            _merge(old[key], value)
        else:
            old[key] = value


def _edit(tree: Any, operation: Any) -> None:
    *way, last = operation["path"].split("/")[1:]
    for step in way:
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]
    assert operation["op"] == "add" or (operation["op"] == "replace" and last in tree)
    tree[last] = operation["value"]


def _rename_images(tree: Any, new: dict[str, str]) -> None:
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, dict | list):
            _rename_images(value, new)
    if isinstance(tree, dict) and isinstance(tree.get("image"), str):
        tree["image"] = new.get(tree["image"], tree["image"])
