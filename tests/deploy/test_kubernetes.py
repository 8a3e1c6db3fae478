"""The Kubernetes manifests, rendered and checked against the schemas of Kubernetes, the fields
that operators define, and each other."""

import re
import shutil
import textwrap
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml

import catalog
from contract import variables
from deploy import manifests
from deploy.manifests import OVERLAYS
from deploy.stack import ROOT, Stack
from documents.translation import MEMORY_BYTES
from gateway.settings import Settings, name_variable
from tests.deploy import kustomize
from tests.deploy.kustomize import Resource
from tests.programs import run

KUBERNETES = "1.37.0"
#: The schemas of operators' resources, by kind.
OPERATORS = yaml.safe_load(Path(__file__).with_name("kuberay.yaml").read_text("utf-8"))


@pytest.fixture(params=["cpu", "gpu"])
def overlay(request: pytest.FixtureRequest) -> Any:
    return request.param


@cache
def render(overlay: str) -> list[Resource]:
    with TemporaryDirectory() as folder:
        return kustomize.render(copy_overlay(overlay, Path(folder)))


def copy_overlay(overlay: str, folder: Path) -> Path:
    """Copy an overlay, with the settings that follow from the map."""
    key_file = folder / "key"
    key_file.write_text("secret")
    shutil.copytree(OVERLAYS.parent, folder, dirs_exist_ok=True)
    copy = folder / "overlays" / overlay
    manifests.write(copy, catalog.MAP, key_file, has_gpus=overlay == "gpu")
    return copy


def copy_for_registry(overlay: str, folder: Path) -> Path:
    """Copy an overlay, with the lines of docs/scaling.md to get the image from a registry."""
    page = (ROOT / "docs/scaling.md").read_text("utf-8")
    (images,) = re.findall(r"   ```yaml\n(   images:\n.*?)   ```", page, re.DOTALL)
    copy = copy_overlay(overlay, folder)
    with (copy / "kustomization.yaml").open("a", encoding="utf-8") as file:
        file.write(textwrap.dedent(images))
    return copy


def find(overlay: str, kind: str, name: str | None = None) -> list[Resource]:
    return [
        resource
        for resource in render(overlay)
        if resource["kind"] == kind and name in (None, resource["metadata"]["name"])
    ]


def find_ray(overlay: str) -> Resource:
    """The specification of the cluster and of what it serves."""
    (service,) = find(overlay, "RayService")
    spec: Resource = service["spec"]
    return spec


def find_program(overlay: str, name: str, pod: str = "babelgate-gateway") -> Resource:
    """A container of a pod."""
    containers = list_pods(overlay)[pod]["spec"]["containers"]
    found: Resource
    (found,) = (container for container in containers if container["name"] == name)
    return found


def list_pods(overlay: str) -> dict[str, Resource]:
    """The template of each kind of pod, by its name."""
    owners = [
        resource
        for resource in render(overlay)
        if resource["kind"] in ("Deployment", "StatefulSet")
    ]
    templates = [owner["spec"]["template"] for owner in owners]
    cluster = find_ray(overlay)["rayClusterConfig"]
    groups = {"head": cluster["headGroupSpec"]} | {
        group["groupName"]: group for group in cluster["workerGroupSpecs"]
    }
    return {
        template["metadata"]["labels"]["app.kubernetes.io/name"]: template
        for template in templates
    } | {name: group["template"] for name, group in groups.items()}


def list_containers(pod: Resource) -> list[Resource]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def list_values(tree: Any, key: str) -> list[Any]:
    """List the values of a key at any depth."""
    if isinstance(tree, list):
        return [found for item in tree for found in list_values(item, key)]
    if not isinstance(tree, dict):
        return []
    own = [tree[key]] if key in tree else []
    return own + list_values(list(tree.values()), key)


def list_labels(overlay: str, selector: dict[str, str]) -> list[Resource]:
    """The pods that match a selector."""
    return [
        pod
        for pod in list_pods(overlay).values()
        if selector.items() <= pod["metadata"]["labels"].items()
    ]


def list_ports(pods: list[Resource]) -> set[str | int]:
    """Names and numbers of the pods' ports."""
    ports = [
        port
        for pod in pods
        for container in list_containers(pod)
        for port in container.get("ports", ())
    ]
    return {port["name"] for port in ports} | {port["containerPort"] for port in ports}


def read_serve(overlay: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(find_ray(overlay)["serveConfigV2"])
    return config


def test_kubernetes_and_its_operators_accept_every_resource(overlay):
    for resource in render(overlay):
        if schema := OPERATORS.get(resource["kind"]):
            jsonschema_rs.validate(schema, resource)
        else:
            kubernetes_validate.validate(resource, KUBERNETES, strict=True)
    assert all(find(overlay, kind) for kind in OPERATORS)
    for name, template in list_pods(overlay).items():
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] = {**template["metadata"], "name": name}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_ray_accepts_what_it_is_to_serve(overlay):
    from ray.serve.schema import ServeDeploySchema

    config = ServeDeploySchema.model_validate(read_serve(overlay))
    pinned = (ROOT / "constraints.txt").read_text("utf-8")
    assert f"ray=={find_ray(overlay)['rayClusterConfig']['rayVersion']}\n" in pinned
    models = catalog.load(is_cluster=True).models
    assert [app.name for app in config.applications] == [m.name for m in models]


def test_gpus_are_asked_for_where_models_run_on_them():
    asked, served = {}, {}
    for overlay in ("cpu", "gpu"):
        limits = find_program(overlay, "ray", "workers")["resources"]["limits"]
        group = find_ray(overlay)["rayClusterConfig"]["workerGroupSpecs"][0]
        gpus = limits.get("nvidia.com/gpu", 0)
        asked[overlay] = group["replicas"] * gpus
        served[overlay] = sum(
            deployment["ray_actor_options"]["num_gpus"] * deployment["num_replicas"]
            for application in read_serve(overlay)["applications"]
            for deployment in application["deployments"]
        )
    assert asked == {"cpu": 0, "gpu": 3}
    assert served == {"cpu": 0, "gpu": pytest.approx(3)}


def test_selectors_find_pods_that_have_the_ports(overlay):
    for service in find(overlay, "Service"):
        pods = list_labels(overlay, service["spec"]["selector"])
        assert pods, service["metadata"]["name"]
        targets = {port["targetPort"] for port in service["spec"]["ports"]}
        assert targets <= list_ports(pods), service["metadata"]["name"]
    for policy in find(overlay, "NetworkPolicy"):
        pods = list_labels(overlay, policy["spec"]["podSelector"]["matchLabels"])
        rules = policy["spec"]["ingress"]
        opened = {port["port"] for rule in rules for port in rule.get("ports", ())}
        assert pods, policy["metadata"]["name"]
        assert opened <= list_ports(pods), policy["metadata"]["name"]
    for kind in ("PodDisruptionBudget", "PodMonitor"):
        for resource in find(overlay, kind):
            assert list_labels(overlay, resource["spec"]["selector"]["matchLabels"])


def test_every_pod_has_a_network_policy_and_none_lets_in_every_namespace(overlay):
    guarded = [
        policy["spec"]["podSelector"]["matchLabels"]
        for policy in find(overlay, "NetworkPolicy")
    ]
    for name, pod in list_pods(overlay).items():
        labels = pod["metadata"]["labels"].items()
        assert [s for s in guarded if s.items() <= labels], name
    for selector in list_values(find(overlay, "NetworkPolicy"), "namespaceSelector"):
        assert selector["matchLabels"]["kubernetes.io/metadata.name"]


def test_what_pods_refer_to_is_there_and_secrets_are_not(overlay):
    pods = list(list_pods(overlay).values())
    found = {
        kind: {resource["metadata"]["name"] for resource in find(overlay, kind)}
        for kind in ("PersistentVolumeClaim", "ConfigMap", "Secret")
    }
    assert set(list_values(pods, "claimName")) == found["PersistentVolumeClaim"]
    maps = (source["name"] for source in list_values(pods, "configMap"))
    assert set(maps) == found["ConfigMap"]
    secrets = {reference["name"] for reference in list_values(pods, "secretKeyRef")}
    secrets |= {*list_values([pods, find(overlay, "RayService")], "secretName")}
    assert secrets == {"babelgate-ray", "babelgate-database", "babelgate-redis"}
    assert not found["Secret"]


def test_pods_have_no_rights(overlay):
    for name, pod in list_pods(overlay).items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False, name
        for container in list_containers(pod):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, container["name"]
            assert context["allowPrivilegeEscalation"] is False, container["name"]
            assert context["capabilities"] == {"drop": ["ALL"]}, container["name"]
            assert container["resources"]["limits"]["memory"], container["name"]


def test_the_gateway_asks_where_ray_answers(overlay):
    gateway = find_program(overlay, "gateway")
    environment = {entry["name"]: entry.get("value") for entry in gateway["env"]}
    options = read_serve(overlay)["http_options"]
    (serve,) = (
        port
        for port in find_program(overlay, "ray", "workers")["ports"]
        if port["name"] == "serve"
    )
    # KubeRay's Service for requests has the RayService's name with a suffix.
    assert environment["BABELGATE_RAY_URLS"] == (
        f"http://babelgate-serve-svc:{options['port']}"
    )
    assert serve["containerPort"] == options["port"]
    (key,) = (
        volume["secret"]
        for volume in list_pods(overlay)["babelgate-gateway"]["spec"]["volumes"]
        if "secret" in volume
    )
    (place,) = (m["mountPath"] for m in gateway["volumeMounts"] if m["name"] == "key")
    node = Stack(Path("/run/babelgate"), Path(), backend="ray").node
    assert Path(place, key["items"][0]["path"]) == node.key_file


def test_head_and_workers_have_the_same_variables():
    head, workers = (list_pods("cpu")[name]["spec"] for name in ("head", "workers"))
    assert head["containers"][0]["env"] == workers["containers"][0]["env"]
    volumes = [{each["name"] for each in pod["volumes"]} for pod in (head, workers)]
    assert volumes[0] == volumes[1]


def test_a_copy_of_an_overlay_takes_the_image_from_a_registry(tmp_path: Path):
    rendered = kustomize.render(copy_for_registry("gpu", tmp_path))
    images = set(list_values(rendered, "image"))
    assert images == {"registry.example.org/babelgate:0.1.0", "redis:7.4"}


@pytest.mark.kubectl
def test_kubectl_renders_the_same(overlay: str, tmp_path: Path):
    kubectl = shutil.which("kubectl")
    assert kubectl, "Install kubectl: https://kubernetes.io/docs/tasks/tools/"
    copy = copy_for_registry(overlay, tmp_path)
    text = run(kubectl, "kustomize", copy)
    # The hash is in the map's name and in the gateway's pods, so that a new map restarts them.
    text, hashes = re.subn(r"\b(babelgate-map)-[a-z0-9]{10}\b", r"\1", text)
    assert hashes == 2
    expected, rendered = (
        {(r["kind"], r["metadata"]["name"]): r for r in resources}
        for resources in (yaml.safe_load_all(text), kustomize.render(copy))
    )
    assert rendered == expected


def test_variables_are_those_that_programs_read():
    known = {variable.name for variable in variables.SETTINGS}
    known |= {name_variable(name) for name in Settings.model_fields}
    known |= {"GATEWAY_BACKEND", "WEB_CONCURRENCY", "REDIS_PASSWORD"}
    containers = [c for pod in list_pods("cpu").values() for c in list_containers(pod)]
    named = {entry["name"] for c in containers for entry in c.get("env", ())}
    assert {name for name in named if not name.startswith("RAY_")} <= known


def test_every_redis_has_a_password_and_answers_its_own_clients_only(overlay):
    clients = {
        "babelgate-redis": {"babelgate-ray"},
        "babelgate-limits": {"babelgate-gateway"},
    }
    label = "app.kubernetes.io/name"
    for name, allowed in clients.items():
        (container,) = list_pods(overlay)[name]["spec"]["containers"]
        assert container["args"][:2] == ["--requirepass", "$(REDIS_PASSWORD)"]
        assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"]
        (policy,) = find(overlay, "NetworkPolicy", name)
        (rule,) = policy["spec"]["ingress"]
        peers = {peer["podSelector"]["matchLabels"][label] for peer in rule["from"]}
        assert peers == allowed
        (asking,) = (find(overlay, "NetworkPolicy", peer)[0] for peer in allowed)
        targets = list_values(asking["spec"]["egress"], label)
        assert name in targets


def test_pods_require_keys_and_count_requests_together(overlay):
    gateway = find_program(overlay, "gateway")
    environment = {entry["name"]: entry.get("value") for entry in gateway["env"]}
    assert environment["BABELGATE_KEYS"] == "required"
    url = environment["BABELGATE_LIMITS_URL"]
    assert url == "redis://:$(REDIS_PASSWORD)@babelgate-limits:6379"
    # Kubernetes expands only variables that are defined earlier in the list.
    names = [entry["name"] for entry in gateway["env"]]
    assert names.index("REDIS_PASSWORD") < names.index("BABELGATE_LIMITS_URL")


def test_the_memory_for_documents_holds_what_their_processes_may_take(overlay):
    program = find_program(overlay, "documents")
    limit = int(program["resources"]["limits"]["memory"].removesuffix("Mi"))
    at_once = int(variables.DOCUMENTS_AT_ONCE.default)
    assert limit > at_once * (MEMORY_BYTES >> 20)
