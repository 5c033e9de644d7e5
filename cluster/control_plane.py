"""The control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one set of namespaces."""

from __future__ import annotations

from cluster import certificates, network, processes
from cluster.programs import Programs
from cluster.state import State

ROLE = "control-plane"


def server(subnet: str) -> str:
    return f"https://{network.control_address(subnet)}:{network.API_PORT}"


def write_kubeconfigs(state: State, subnet: str):
    folder = state.folder / "control-plane"
    folder.mkdir(parents=True, exist_ok=True)
    for client, path in (("admin", state.kubeconfig), ("controller-manager", folder / "controller-manager.kubeconfig"),
                         ("scheduler", folder / "scheduler.kubeconfig")):
        path.touch(mode=0o600)
        path.write_text(certificates.kubeconfig(state.certificates, client, state.name, server(subnet)),
                        encoding="utf-8")


def _etcd(state: State, programs: Programs) -> list[str]:
    # The data lies in memory and dies with the cluster, so there is nothing to sync.
    return [programs.path("etcd"), "--name=pitcrew", f"--data-dir={state.folder}/etcd/data", "--unsafe-no-fsync",
            "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=pitcrew=http://127.0.0.1:2380", "--auto-compaction-retention=1h", "--log-level=warn"]


def _apiserver(state: State, programs: Programs, subnet: str) -> list[str]:
    keys = state.certificates
    return [programs.path("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={network.control_address(subnet)}", f"--secure-port={network.API_PORT}",
            f"--client-ca-file={keys}/ca.crt", f"--tls-cert-file={keys}/apiserver.crt",
            f"--tls-private-key-file={keys}/apiserver.key",
            f"--kubelet-client-certificate={keys}/kubelet-client.crt",
            f"--kubelet-client-key={keys}/kubelet-client.key", "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={keys}/service-accounts.pub",
            f"--service-account-signing-key-file={keys}/service-accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={network.SERVICE_NETWORK}", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", "--profiling=false"]


def specification(state: State, programs: Programs, subnet: str) -> dict:
    (state.folder / "etcd").mkdir(exist_ok=True)
    folder = state.folder / "control-plane"
    return {
        "cluster": state.name, "role": ROLE, "hostname": f"pitcrew-{state.name}", "path": processes.PATH,
        "logs": str(state.folder / "log"), "tmpfs": [str(state.folder / "etcd")],
        "services": [
            {"name": "etcd", "argv": _etcd(state, programs)},
            {"name": "kube-apiserver", "argv": _apiserver(state, programs, subnet), "after": "etcd"},
            # One instance of each: an election would only delay the start, and so would the default limit of
            # 20 requests a second, which the controllers spend on making their own clients.
            {"name": "kube-controller-manager", "after": "kube-apiserver",
             "argv": [programs.path("kube-controller-manager"),
                      f"--kubeconfig={folder}/controller-manager.kubeconfig",
                      f"--service-account-private-key-file={state.certificates}/service-accounts.key",
                      f"--root-ca-file={state.certificates}/ca.crt", "--use-service-account-credentials=true",
                      "--kube-api-qps=200", "--kube-api-burst=400",
                      "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"]},
            {"name": "kube-scheduler", "after": "kube-apiserver",
             "argv": [programs.path("kube-scheduler"), f"--kubeconfig={folder}/scheduler.kubeconfig",
                      "--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400",
                      "--bind-address=127.0.0.1", "--profiling=false"]},
        ],
    }
