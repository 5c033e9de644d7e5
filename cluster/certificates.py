"""The cluster's own certificate authority, certificates and kubeconfigs, made by openssl."""

from __future__ import annotations

import base64
import json
import pathlib
import subprocess

from cluster import network
from cluster.errors import ClusterError


def _openssl(folder: pathlib.Path, *arguments: str):
    result = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ClusterError(f"`openssl {' '.join(arguments)}` failed: {result.stderr.strip()}")


def _key_and_certificate(folder: pathlib.Path, name: str, subject: str, usage: str, names: list[str] | None = None):
    if (folder / f"{name}.crt").exists():
        return
    arguments = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "3650", "-subj", subject,
                 "-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE",
                 "-addext", "keyUsage=critical,digitalSignature", "-addext", f"extendedKeyUsage={usage}"]
    if names:
        arguments += ["-addext", "subjectAltName=" + ",".join(names)]
    _openssl(folder, *arguments)


def create(folder: pathlib.Path, subnet: str, nodes: list[str]):
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", "ca.key", "-out", "ca.crt", "-days", "3650", "-subj", "/CN=pitcrew-cluster",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "service-accounts.key")
    _openssl(folder, "ec", "-in", "service-accounts.key", "-pubout", "-out", "service-accounts.pub")
    _key_and_certificate(folder, "apiserver", "/CN=kube-apiserver", "serverAuth", [
        f"IP:{network.control_address(subnet)}", f"IP:{network.KUBERNETES_SERVICE}", "IP:127.0.0.1",
        "DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
        "DNS:kubernetes.default.svc.cluster.local"])
    clients = {"admin": "/O=system:masters/CN=pitcrew-admin",
               "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
               "controller-manager": "/CN=system:kube-controller-manager",
               "scheduler": "/CN=system:kube-scheduler"}
    clients |= {f"node-{node}": f"/O=system:nodes/CN=system:node:{node}" for node in nodes}
    for name, subject in clients.items():
        _key_and_certificate(folder, name, subject, "clientAuth")


def kubeconfig(folder: pathlib.Path, client: str, cluster: str, server: str) -> str:
    """A kubeconfig with everything inside, as JSON (which is YAML): it can be moved anywhere."""
    def data(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    context = f"pitcrew-{cluster}"
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{"name": context, "cluster": {"server": server,
                                                   "certificate-authority-data": data("ca.crt")}}],
        "users": [{"name": client, "user": {"client-certificate-data": data(f"{client}.crt"),
                                            "client-key-data": data(f"{client}.key")}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": client}}],
    }, indent=1) + "\n"
