"""Renders a kustomization as `kubectl kustomize` does, from the few parts of kustomize that our
manifests use. All others are refused, so that no test judges what a cluster would not get.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

Resource = dict[str, Any]

#: The values that a strategic merge replaces. A null would delete, and lists merge by
#: rules of their own.
_SCALAR = str | int | float | bool


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Labels(_Part):
    #: For the resources themselves: neither for selectors nor for templates.
    pairs: dict[str, str]


class _ConfigMap(_Part):
    name: str
    files: list[str]


class _Target(_Part):
    kind: str
    name: str


class _Patch(_Part):
    """A JSON patch of the target; without a target, a strategic merge patch."""

    target: _Target | None = None
    path: str | None = None
    patch: str | None = None

    @model_validator(mode="after")
    def _has_one_text(self) -> _Patch:
        if (self.path is None) == (self.patch is None):
            raise ValueError("expected either path or patch")
        return self


class _Image(_Part):
    name: str
    newName: str
    newTag: str


class _Kustomization(_Part):
    apiVersion: Literal["kustomize.config.k8s.io/v1beta1"]
    kind: Literal["Kustomization"]
    resources: list[str]
    namespace: str | None = None
    labels: list[_Labels] = []
    configMapGenerator: list[_ConfigMap] = []
    patches: list[_Patch] = []
    images: list[_Image] = []


class _Operation(_Part):
    op: Literal["add", "replace"]
    #: Without `~`, which stands for characters that our keys do not have.
    path: str = Field(pattern=r"^(/[^/~]+)+$")
    value: Any


class _Operations(RootModel[list[_Operation]]):
    pass


class _Metadata(BaseModel):
    name: str


class _Named(BaseModel):
    """The name of a resource. Kubernetes' schemas have the rest."""

    kind: str
    metadata: _Metadata


def render(folder: Path) -> list[Resource]:
    """The resources of a folder's kustomization. The name of a generated ConfigMap has no hash.
    Raises ValueError with the folder's name if a file has what is not understood."""
    try:
        text = _read(folder, "kustomization.yaml")
        return _apply(folder, _Kustomization.model_validate(yaml.safe_load(text)))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def _apply(folder: Path, wanted: _Kustomization) -> list[Resource]:
    resources = [found for name in wanted.resources for found in _load(folder, name)]
    resources += [_make_map(folder, wished) for wished in wanted.configMapGenerator]
    targets = [_identify(resource) for resource in resources]
    if len(set(targets)) < len(targets):
        raise ValueError(f"expected each resource once, found {targets!r}")
    for patch in wanted.patches:
        resources = _patch(folder, resources, patch)
    for labels in wanted.labels:
        resources = [_label(resource, labels.pairs) for resource in resources]
    if wanted.namespace is not None:
        resources = [_place(resource, wanted.namespace) for resource in resources]
    new = {image.name: f"{image.newName}:{image.newTag}" for image in wanted.images}
    return [_rename_images(resource, new) for resource in resources]


def _read(folder: Path, name: str) -> str:
    path = folder / name
    if path.parent != folder:  # kustomize reads none outside of it either
        raise ValueError(f"{name}: expected a file of this folder")
    return path.read_text("utf-8")


def _load(folder: Path, name: str) -> list[Resource]:
    if (folder / name).is_dir():
        return render(folder / name)
    return list(yaml.safe_load_all(_read(folder, name)))


def _make_map(folder: Path, wanted: _ConfigMap) -> Resource:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": wanted.name},
        "data": {name: _read(folder, name) for name in wanted.files},
    }


def _identify(resource: Any) -> _Target:
    named = _Named.model_validate(resource)
    return _Target(kind=named.kind, name=named.metadata.name)


def _patch(folder: Path, resources: list[Resource], patch: _Patch) -> list[Resource]:
    content = yaml.safe_load(patch.patch or _read(folder, patch.path or ""))
    change: Callable[[Resource], Resource]
    if patch.target is None:
        target, change = _identify(content), partial(_merge, new=content)
    else:
        operations = _Operations.model_validate(content).root
        target, change = patch.target, partial(_edit, operations=operations)
    if target not in map(_identify, resources):
        raise ValueError(f"expected a resource to patch, found no {target!r}")
    return [change(r) if _identify(r) == target else r for r in resources]


def _merge(old: Resource, new: Resource) -> Resource:
    merged = dict(old)
    for key, value in new.items():
        if key.startswith("$"):
            raise ValueError(f"{key}: expected a field to merge, found a directive")
        found = old.get(key, value)
        if isinstance(value, dict) and isinstance(found, dict):
            merged[key] = _merge(found, value)
        elif isinstance(value, _SCALAR) and isinstance(found, _SCALAR):
            merged[key] = value
        else:
            raise ValueError(f"{key}: expected a mapping or a scalar to merge")
    return merged


def _edit(resource: Resource, operations: list[_Operation]) -> Resource:
    for operation in operations:
        resource = _change(resource, operation.path.split("/")[1:], operation)
    return resource


def _change(tree: Any, steps: list[str], wanted: _Operation) -> Any:
    """A copy with the operation's value. Only what is on the way is copied: a YAML alias makes
    one value stand in several places."""
    step, *rest = steps
    if isinstance(tree, list) and rest and step in map(str, range(len(tree))):
        at = int(step)
        return [*tree[:at], _change(tree[at], rest, wanted), *tree[at + 1 :]]
    is_new = wanted.op == "add" and not rest
    if isinstance(tree, dict) and (step in tree or is_new):
        value = _change(tree[step], rest, wanted) if rest else wanted.value
        return tree | {step: value}
    raise ValueError(
        f"{wanted.path}: expected a place that {step} is in or is added to"
    )


def _label(resource: Resource, pairs: dict[str, str]) -> Resource:
    metadata = resource["metadata"]
    labels = metadata.get("labels", {}) | pairs
    return resource | {"metadata": metadata | {"labels": labels}}


def _place(resource: Resource, namespace: str) -> Resource:
    """Our only resource that is in no namespace is the namespace itself."""
    key = "name" if resource["kind"] == "Namespace" else "namespace"
    return resource | {"metadata": resource["metadata"] | {key: namespace}}


def _rename_images(tree: Any, new: dict[str, str]) -> Any:
    if isinstance(tree, list):
        return [_rename_images(item, new) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        key: new.get(value, value)
        if key == "image" and isinstance(value, str)
        else _rename_images(value, new)
        for key, value in tree.items()
    }
