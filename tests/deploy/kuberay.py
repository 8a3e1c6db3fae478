"""The fields of operators' resources that our manifests use, as the operators document them.
Others are refused: an operator would ignore a field with a wrong name.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Resource(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Metadata(_Resource):
    name: str = Field(pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$", max_length=40)
    namespace: str
    labels: dict[str, str]


class _PodTemplate(_Resource):
    """Kubernetes' own schema has the rest."""

    metadata: dict[str, dict[str, str]]
    spec: dict[str, Any]


class _Group(_Resource):
    # Ray's own options are texts, numbers too.
    rayStartParams: dict[str, str]
    template: _PodTemplate


class _Workers(_Group):
    groupName: str
    replicas: int = Field(ge=0)


class _Auth(_Resource):
    mode: Literal["disabled", "token"]
    #: Has the token as `auth_token`.
    secretName: str


class _Reference(_Resource):
    name: str
    key: str


class _SecretKey(_Resource):
    secretKeyRef: _Reference


class _Password(_Resource):
    valueFrom: _SecretKey


class _FaultTolerance(_Resource):
    redisAddress: str
    redisPassword: _Password


class _Cluster(_Resource):
    rayVersion: str
    authOptions: _Auth
    gcsFaultToleranceOptions: _FaultTolerance
    headGroupSpec: _Group
    workerGroupSpecs: list[_Workers] = Field(min_length=1)


class _Service(_Resource):
    serveConfigV2: str = Field(min_length=1)
    excludeHeadPodFromServeSvc: bool
    rayClusterConfig: _Cluster


class RayService(_Resource):
    """A cluster and what it serves, as KubeRay 1.6 reads it."""

    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayService"]
    metadata: _Metadata
    spec: _Service


class _Selector(_Resource):
    matchLabels: dict[str, str]


class _Endpoint(_Resource):
    port: str
    interval: str = Field(pattern=r"^\d+s$")
    scrapeTimeout: str | None = Field(None, pattern=r"^\d+s$")


class _Services(_Resource):
    selector: _Selector
    endpoints: list[_Endpoint]


class _Pods(_Resource):
    selector: _Selector
    podMetricsEndpoints: list[_Endpoint]


class ServiceMonitor(_Resource):
    """The targets of the Prometheus operator behind a Service."""

    apiVersion: Literal["monitoring.coreos.com/v1"]
    kind: Literal["ServiceMonitor"]
    metadata: _Metadata
    spec: _Services


class PodMonitor(_Resource):
    """The targets of the Prometheus operator among pods."""

    apiVersion: Literal["monitoring.coreos.com/v1"]
    kind: Literal["PodMonitor"]
    metadata: _Metadata
    spec: _Pods
