"""The Kubernetes manifests of the consumers: one Deployment for each worker of the compose project.

`python3 -m tailrace.ops.deploy.manifests` in a checkout writes them again; a test holds the files to this table.
"""

from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "kubernetes"
HEADER: Final = "# Made by ops/deploy/manifests.py: change the table there.\n"


class Worker(NamedTuple):
    """One consumer; `shm`: the shared memory of a browser. Beyond `most` replicas more of them would only wait."""

    name: str
    memory: str
    platforms: tuple[str, ...] = ()
    shm: str = ""
    least: int = 0
    most: int = 1
    grace_seconds: int = 25


WORKERS: Final = (
    Worker("oliveyoung", "4Gi", shm="2Gi"),
    Worker("ably", "4Gi", shm="2Gi"),
    Worker("kurly", "4Gi", shm="2Gi"),
    Worker("hwahae", "2Gi"),
    Worker("musinsa", "2Gi"),
    Worker("zigzag", "2Gi"),
    Worker("extract", "4Gi", ("extract", "url_extraction", "single_product", "multi_platform")),
    Worker(
        "default",
        "2Gi",
        ("default", "research", "plan-generation", "material-processing"),
        least=1,
        most=5,
        grace_seconds=3600,  # with several replicas the one that goes may be the one that works: it may finish
    ),
)

DEPLOYMENT: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: tailrace-{name}
  labels: {{app: tailrace, worker: {name}}}
spec:
  replicas: 1
  selector:
    matchLabels: {{app: tailrace, worker: {name}}}
  template:
    metadata:
      labels: {{app: tailrace, worker: {name}}}
      annotations: {{prometheus.io/scrape: "true", prometheus.io/port: "9400"}}
    spec:
      terminationGracePeriodSeconds: {termination}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        seccompProfile: {{type: RuntimeDefault}}
      containers:
        - name: consumer
          image: tailrace
          args: ["consume"]
          env:
            - {{name: SERVICE_NAME, value: {name}}}
            - {{name: WORKER_PLATFORMS, value: "{platforms}"}}
            - {{name: TAILRACE_GRACE_SECONDS, value: "{grace}"}}
            - {{name: TAILRACE_METRICS_HOST, value: 0.0.0.0}}
            - {{name: TAILRACE_METRICS_PORT, value: "9400"}}
            - {{name: REDIS_URL_FILE, value: /run/secrets/tailrace/redis-url}}
          ports:
            - {{name: metrics, containerPort: 9400}}
          startupProbe:
            httpGet: {{path: /healthz, port: metrics}}
            periodSeconds: 1
            failureThreshold: 60
          livenessProbe:
            httpGet: {{path: /healthz, port: metrics}}
            periodSeconds: 10
            failureThreshold: 6
          readinessProbe:
            httpGet: {{path: /readyz, port: metrics}}
            periodSeconds: 5
          resources:
            requests: {{cpu: 100m, memory: 256Mi}}
            limits: {{memory: {memory}}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: ["ALL"]}}
          volumeMounts:
            - {{name: tmp, mountPath: /tmp}}
            - {{name: secrets, mountPath: /run/secrets/tailrace, readOnly: true}}
{shm_mount}      volumes:
        - name: tmp
          emptyDir: {{sizeLimit: 1Gi}}
        - name: secrets
          secret: {{secretName: tailrace}}
{shm_volume}---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: tailrace-{name}
spec:
  maxUnavailable: 1 # a node may be drained: the pod hands its job back, and the next one goes on
  selector:
    matchLabels: {{app: tailrace, worker: {name}}}
"""

SHM_MOUNT: Final = "            - {name: shm, mountPath: /dev/shm}\n"
SHM_VOLUME: Final = "        - name: shm\n          emptyDir: {{medium: Memory, sizeLimit: {shm}}}\n"

SCALED: Final = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: tailrace-{name}
spec:
  scaleTargetRef:
    name: tailrace-{name}
  minReplicaCount: {least}
  maxReplicaCount: {most}
  cooldownPeriod: 300
  triggers: # the larger one counts: what waits brings replicas, what runs keeps them; every gateway tells the same
    - type: prometheus
      name: waiting
      metadata:
        serverAddress: http://prometheus:9090
        query: sum(max by (platform, state) (tailrace_jobs{{platform=~"{regex}",state=~"waiting|delayed|awaiting"}}))
        threshold: "{per_replica}"
    - type: prometheus
      name: running
      metadata:
        serverAddress: http://prometheus:9090
        query: sum(max by (platform) (tailrace_jobs{{platform=~"{regex}",state="running"}}))
        threshold: "1"
"""

SCALING: Final = """\
# KEDA scales each worker by two triggers, so that a long job is not scaled away when nothing waits behind it.
# What is delayed or awaits something counts as waiting: only a worker brings it back when its time has come.
# Least 0 means that an idle shop has no worker at all. A platform with schedules needs one: consumers make the ticks.
"""


def deployment(worker: Worker) -> str:
    return DEPLOYMENT.format(
        name=worker.name,
        platforms=",".join(worker.platforms or (worker.name,)),
        memory=worker.memory,
        grace=worker.grace_seconds,
        termination=worker.grace_seconds + 20,
        shm_mount=SHM_MOUNT if worker.shm else "",
        shm_volume=SHM_VOLUME.format(shm=worker.shm) if worker.shm else "",
    )


def scaled(worker: Worker) -> str:
    return SCALED.format(
        name=worker.name,
        regex="|".join(worker.platforms or (worker.name,)),
        least=worker.least,
        most=worker.most,
        per_replica=1 if worker.most == 1 else 10,
    )


def manifests() -> dict[str, str]:
    """Each file with its text."""
    return {
        "consumers.yaml": HEADER + "---\n".join(map(deployment, WORKERS)),
        "keda.yaml": HEADER + SCALING + "---\n".join(map(scaled, WORKERS)),
    }


if __name__ == "__main__":
    for name, text in manifests().items():
        (FOLDER / name).write_text(text)
