"""The fields of operators' resources that our manifests use, as KubeRay 1.6 and the Prometheus
operator document them. An operator would ignore a field with a wrong name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TEXT, _NUMBER, _SPAN, _ANY = r'".+"', r"\d+", r'"\d+s"', ".+"
#: Ray's own options are texts, numbers too.
_TEXTS = r'\{(?:"[^"]+": "[^"]*"(?:, )?)+\}'
_METADATA = {
    ".metadata.name": r'"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"',
    ".metadata.namespace": _TEXT,
    ".metadata.labels": _TEXTS,
}
_CLUSTER = ".spec.rayClusterConfig"
_HEAD, _WORKERS = f"{_CLUSTER}.headGroupSpec", f"{_CLUSTER}.workerGroupSpecs[]"
_GCS = f"{_CLUSTER}.gcsFaultToleranceOptions"
_PASSWORD = f"{_GCS}.redisPassword.valueFrom.secretKeyRef"


def _describe_monitor(kind: str, endpoints: str) -> dict[str, str]:
    return _METADATA | {
        ".apiVersion": '"monitoring.coreos.com/v1"',
        ".kind": f'"{kind}"',
        ".spec.selector.matchLabels": _TEXTS,
        f".spec.{endpoints}[].port": _TEXT,
        f".spec.{endpoints}[].interval": _SPAN,
        f".spec.{endpoints}[].scrapeTimeout?": _SPAN,
    }


#: The fields of each kind, and how their values look in JSON. `?` ends the name of an optional
#: one. Kubernetes' own schemas have the templates.
FIELDS: Mapping[str, Mapping[str, str]] = {
    "RayService": _METADATA
    | {
        ".apiVersion": '"ray.io/v1"',
        ".kind": '"RayService"',
        ".spec.serveConfigV2": _TEXT,
        ".spec.excludeHeadPodFromServeSvc": "true|false",
        f"{_CLUSTER}.rayVersion": _TEXT,
        f"{_CLUSTER}.authOptions.mode": '"(disabled|token)"',
        # Has the token as `auth_token`.
        f"{_CLUSTER}.authOptions.secretName": _TEXT,
        f"{_GCS}.redisAddress": _TEXT,
        **{f"{_PASSWORD}.{name}": _TEXT for name in ("name", "key")},
        **{f"{group}.rayStartParams": _TEXTS for group in (_HEAD, _WORKERS)},
        **{f"{group}.template": _ANY for group in (_HEAD, _WORKERS)},
        f"{_WORKERS}.groupName": _TEXT,
        f"{_WORKERS}.replicas": _NUMBER,
    },
    "ServiceMonitor": _describe_monitor("ServiceMonitor", "endpoints"),
    "PodMonitor": _describe_monitor("PodMonitor", "podMetricsEndpoints"),
}


def check(resource: Mapping[str, Any]) -> None:
    """Assert that an operator knows every field, has every one that it needs, and takes the
    values."""
    fields = FIELDS[resource["kind"]]
    patterns = {name.removesuffix("?"): fields[name] for name in fields}
    found = list(_list_fields(resource, patterns))
    names = {name for name, _ in found}
    needed = {name for name in fields if not name.endswith("?")}
    assert needed <= names <= patterns.keys(), names ^ needed
    for name, value in found:
        assert re.fullmatch(patterns[name], json.dumps(value)), (name, value)


def _list_fields(
    tree: Any, known: Mapping[str, str], path: str = ""
) -> Iterator[tuple[str, Any]]:
    if path in known or not isinstance(tree, dict | list):
        yield path, tree
        return
    inner = (
        ((f"{path}.{name}", tree[name]) for name in tree)
        if isinstance(tree, dict)
        else ((f"{path}[]", each) for each in tree)
    )
    for name, each in inner:
        yield from _list_fields(each, known, name)
