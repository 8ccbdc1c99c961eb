"""What the cluster's programs are told: networks, times, flags and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubernetes_cluster.certificates import Authority
from kubernetes_cluster.images import PAUSE
from kubernetes_cluster.programs import Programs

# In network namespaces of the cluster's own: other clusters, and this computer, may use the same.
CONTROL_PLANE = "10.77.0.1"
# Without an address of its own a bridge takes the lowest of its links'. It then changes when a node
# or a pod comes or goes, and who knew the old one reaches nothing behind it for minutes.
BRIDGE_MAC = "02:00:0a:4d:00:01"
POD_BRIDGE = "cni0"  # on each node
SERVICES = "10.96.0.0/24"
API_SERVICE = "10.96.0.1"  # where pods look for the API server
CONTAINERD = "/run/containerd/containerd.sock"
REGISTRY = "registry.test"  # the name before those of its images; no DNS has it
REGISTRY_PORT = 5000  # of the control plane

# A node that says nothing is lost after NODE_LOST seconds, and its pods are deleted after
# POD_DELETED more: Kubernetes' own are 50 and 300.
NODE_LOST = 20
POD_DELETED = 2
LEASE = 4  # seconds; kubelet renews it four times as often


def node_name(node: int) -> str:
    """Of a node, counted from 1."""
    return f"node{node}"


def node_address(node: int) -> str:
    """Of a node, in the cluster's network."""
    return f"10.77.0.{10 + node}"


def pod_network(node: int) -> str:
    """Of the pods of a node."""
    return f"10.78.{node}.0/24"


def etcd(data: Path) -> list[str]:
    """Flags: it listens on the control plane's loopback."""
    clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [
        *(f"--data-dir={data}", "--unsafe-no-fsync", "--log-level=warn"),
        *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
        *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
        f"--initial-cluster=default={peers}",
    ]


def api_server(pki: Path) -> list[str]:
    """Flags: RBAC, and certificates for whom it knows."""
    return [
        *("--etcd-servers=http://127.0.0.1:2379", f"--advertise-address={CONTROL_PLANE}"),
        *("--bind-address=0.0.0.0", "--secure-port=443", f"--service-cluster-ip-range={SERVICES}"),
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
        *(f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key"),
        f"--client-ca-file={pki}/ca.crt",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--default-not-ready-toleration-seconds={POD_DELETED}",
        f"--default-unreachable-toleration-seconds={POD_DELETED}",
        *("--allow-privileged=true", "--profiling=false"),
    ]


def controller_manager(pki: Path, kubeconfig: Path) -> list[str]:
    """Flags: it gives a silent node up early."""
    return [
        *(f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"),
        f"--service-account-private-key-file={pki}/sa.key",
        *(f"--root-ca-file={pki}/ca.crt", "--use-service-account-credentials=true"),
        *("--node-monitor-period=1s", f"--node-monitor-grace-period={NODE_LOST}s"),
        "--flex-volume-plugin-dir=/var/lib/volume-plugins",
        "--node-eviction-rate=10",  # nodes a second: a second loss is not to wait
        # It asks for a token for each of its controllers, with these in a second.
        *("--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false"),
    ]


def scheduler(kubeconfig: Path) -> list[str]:
    """Flags."""
    return [
        *(f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"),
        "--profiling=false",
    ]


def kubelet(node: int, folder: Path) -> list[str]:
    """Flags. `folder` is the node's."""
    return [
        *(f"--config={folder}/kubelet.json", f"--kubeconfig={folder}/kubeconfig"),
        *(f"--hostname-override={node_name(node)}", f"--node-ip={node_address(node)}"),
        f"--node-labels=topology.kubernetes.io/zone=zone{node}",
    ]


def write_node(
    node: int,
    folder: Path,
    authority: Authority,
    programs: Programs,
    snapshotter: str,
    group: str,
    spec: dict[str, Any],
) -> None:
    """The files of a node's containerd and kubelet. `group`: its control group, below the root;
    `spec`: the OCI runtime specification that each container begins with."""
    network = folder / "network"
    network.mkdir(exist_ok=True)
    plugins = {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": POD_BRIDGE,
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": pod_network(node)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }
    _write_json(network / "pods.conflist", plugins)
    _write_json(folder / "spec.json", spec)
    (folder / "containerd.toml").write_text(_containerd(folder, programs.plugins(), snapshotter))
    server = f"http://{CONTROL_PLANE}:{REGISTRY_PORT}"
    hosts = folder / "registries" / REGISTRY / "hosts.toml"
    hosts.parent.mkdir(parents=True, exist_ok=True)
    hosts.write_text(
        f'server = "{server}"\n[host."{server}"]\ncapabilities = ["pull", "resolve"]\n'
    )
    _write_json(folder / "kubelet.json", _kubelet(node, authority.folder, group))


def _containerd(folder: Path, plugins: Path, snapshotter: str) -> str:
    # Without restrict_oom_score_adj no pod starts where root lacks CAP_SYS_RESOURCE.
    return f"""\
version = 2
[grpc]
  address = "{CONTAINERD}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{folder}/spec.json"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/network"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{folder}/registries"
"""


def _kubelet(node: int, pki: Path, group: str) -> dict[str, Any]:
    name = node_name(node)
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "address": node_address(node),
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/{name}.crt",
        "tlsPrivateKeyFile": f"{pki}/{name}.key",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        # The computer has one tree of control groups. Nodes that are not root of it share it.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # The disk is this computer's: how full it is says nothing.
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": LEASE,
        "maxPods": 100,
        # A program that writes much gets a new file for its log soon, as after hours elsewhere.
        "containerLogMaxSize": "1Mi",
        "containerLogMonitorInterval": "3s",
        "serializeImagePulls": False,
        "registryPullQPS": 0,
    }


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1))
