"""Makes Ray Serve's configuration from the map: one application per model, whose replicas Ray
places, and the arguments of each replica, as JSON.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from catalog import CPU, SECTIONS, Catalog, Model
from catalog.sections import PLACEMENT
from contract.rows import prediction_path
from ray_backend.nodes import LOOPBACK

#: The name of the one deployment of each application.
DEPLOYMENT = "model"
_ALL = "0.0.0.0"
_IMPORT_PATH = "ray_backend.application:build"
#: 14 languages fit two cores, as they do with TorchServe.
_REPLICA_CPUS = 0.1
#: The fewest seconds in which Ray ends a replica behind HAProxy.
_DRAIN_S = 35
#: Ray divides a GPU into no finer parts.
_SHARES = 10_000


class Arguments(BaseModel, extra="forbid", frozen=True):
    """A model of the map without its placement, and the digest of the key it requires."""

    name: str
    task: str
    languages: tuple[str, ...]
    devices: tuple[str, ...]
    settings: dict[str, Any]
    #: The SHA-256 of the key that the gateway sends, in hexadecimal digits.
    key_digest: str

    @property
    def model(self) -> Model:
        """The model. Raises ValidationError if its settings are from another version."""
        settings = SECTIONS[self.task].model_validate(self.settings)
        return Model(self.name, self.task, self.languages, self.devices, settings)


def write_arguments(model: Model, key_digest: str) -> dict[str, Any]:
    """Return a model in the form that `Arguments` reads."""
    return Arguments(
        name=model.name,
        task=model.task,
        languages=model.languages,
        devices=model.devices,
        # A change of the placement would otherwise restart every replica.
        settings=model.settings.model_dump(mode="json", exclude=PLACEMENT),
        key_digest=key_digest,
    ).model_dump(mode="json")


def make_config(
    models: Catalog, *, key: str, has_gpus: bool, ingress: str
) -> dict[str, Any]:
    """Return the body of `PUT /api/serve/applications/` for a catalog that was loaded for a
    cluster. `key` is the gateway's; replicas get its hash. Without GPUs, all models run on CPUs
    under the same names. Serve listens on loopback if the gateway uses the `ingress` there,
    otherwise also for other machines."""
    placed = [
        model if has_gpus else replace(model, devices=(CPU,)) for model in models.models
    ]
    # The workers that share each GPU of the map.
    loads: Counter[str] = Counter()
    for model in placed:
        if model.cluster.gpus == "auto":
            loads.update(dict.fromkeys(model.devices, model.settings.workers))
    key_digest = sha256(key.encode()).hexdigest()
    place = urlsplit(ingress)
    host = LOOPBACK if place.hostname in (LOOPBACK, "localhost") else _ALL
    return {
        "http_options": {"host": host, "port": place.port or 80},
        "proxy_location": "EveryNode",
        # A line per row would cost a tenth of a replica's own CPU time.
        "logging_config": {"enable_access_log": False},
        "applications": [
            {
                "name": model.name,
                "route_prefix": prediction_path(model.name),
                "import_path": _IMPORT_PATH,
                "args": write_arguments(model, key_digest),
                "deployments": [_describe_deployment(model, loads)],
            }
            for model in placed
        ],
    }


def _describe_deployment(model: Model, loads: Mapping[str, int]) -> dict[str, Any]:
    settings, cluster = model.settings, model.cluster
    most = cluster.max_replicas_per_machine
    options: dict[str, Any] = {"num_cpus": _REPLICA_CPUS, "num_gpus": 0}
    if model.is_on_gpu:
        options["num_gpus"] = _find_share(model, loads)
        if cluster.accelerator != "any":
            options["accelerator_type"] = cluster.accelerator
    return {
        "name": DEPLOYMENT,
        # More than a replica accepts, so that the replica refuses rows and Ray does not.
        "max_ongoing_requests": 2 * (settings.queue_size + settings.batch_size),
        # A replica that ends answers new rows for another half minute, and then accepted ones.
        "graceful_shutdown_timeout_s": _DRAIN_S + settings.response_timeout,
        # CPUs have room for one more replica, so the new one starts before an old one ends. If
        # GPUs or machines may be full, the new one would wait forever.
        "max_surge_percent": 0 if model.is_on_gpu or most else 1,
        **({"max_replicas_per_node": most} if most else {}),
        "ray_actor_options": options,
        **_describe_replicas(model),
    }


def _describe_replicas(model: Model) -> dict[str, Any]:
    if model.cluster.replicas == "auto":
        return {"num_replicas": model.workers}
    fewest, most = model.cluster.replicas
    if fewest == most:
        return {"num_replicas": most}
    return {
        "autoscaling_config": {
            "min_replicas": fewest,
            "max_replicas": most,
            # One batch runs at a time. With more rows, some wait for more than one batch.
            "target_ongoing_requests": max(2, model.settings.batch_size),
        }
    }


def _find_share(model: Model, loads: Mapping[str, int]) -> float:
    """Return the number of GPUs of a replica. It does not depend on the number of other models'
    replicas, because a change of that would restart this replica."""
    share = model.cluster.gpus
    if share != "auto":
        return share
    most = max(loads[device] for device in model.devices)
    return math.floor(_SHARES / most) / _SHARES
