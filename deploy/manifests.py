"""Writes the two files of a Kubernetes overlay that depend on the map: the map itself for the
gateway, and Ray's configuration of the models.
"""

import textwrap
from pathlib import Path

import yaml

import catalog
from deploy.stack import ROOT
from ray_backend.config import make_config
from ray_backend.deployment import read_key
from ray_backend.nodes import PORTS

OVERLAYS = ROOT / "deploy" / "kubernetes" / "overlays"
MAP, SERVE = "map.json", "serve.yaml"
#: The address on which each of Ray's pods listens for requests: all its addresses.
_INGRESS = f"http://0.0.0.0:{PORTS.ingress}"
_HEAD = """\
# Written by `python -m deploy manifests`.
apiVersion: ray.io/v1
kind: RayService
metadata:
  name: babelgate
spec:
  serveConfigV2: |
"""


def write(overlay: Path, map_path: Path, key_file: Path, *, has_gpus: bool) -> None:
    """Write both files for the gateway's key. Raises CatalogError if the map is unusable,
    DeploymentError if the key is, and OSError."""
    models = catalog.load(map_path, is_cluster=True)
    key = read_key(key_file)
    config = make_config(models, key=key, has_gpus=has_gpus, ingress=_INGRESS)
    served = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    (overlay / MAP).write_text(models.frozen, "utf-8")
    (overlay / SERVE).write_text(_HEAD + textwrap.indent(served, "    "), "utf-8")
