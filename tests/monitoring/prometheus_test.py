#!/usr/bin/env python3
"""A real Prometheus over the metrics exporter on simulated GPUs and over the operator: every panel of the chart's dashboards
has data, and alerts fire when a GPU breaks and end when it is well again. The folder of the build's programs is the only
argument."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests/differential/node"))

import apiserver  # noqa: E402  pylint: disable=wrong-import-position
from prometheus_server import MORE_COUNTERS, PrometheusServer  # noqa: E402  pylint: disable=wrong-import-position
from processes import eventually, free_port  # noqa: E402  pylint: disable=wrong-import-position
from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402  pylint: disable=wrong-import-position

BINARIES = pathlib.Path(sys.argv.pop()).resolve()
DESCRIPTION = {"gpus": [{"profile": "H100-80", "mig": {"enabled": True, "devices": {"1g.10gb": 7}}},
                        {"profile": "H100-80", "count": 2, "load": 50}, {"profile": "A100-80"}]}
NAMESPACE = "gpu-operator"
REQUIRED = ("daemonsets", "dcgm", "dcgmExporter", "devicePlugin", "driver", "gfd", "nodeStatusExporter", "operator", "toolkit")


class Prometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-prometheus-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.start_exporter()
        cls.start_operator()
        cls.start_prometheus()

    @classmethod
    def start(cls, name, words, **more):
        with open(cls.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, **more)
        cls.addClassCleanup(process.communicate)
        cls.addClassCleanup(process.kill)

    @classmethod
    def start_exporter(cls):
        cls.node = SimulatedNode(cls.folder / "node", BINARIES, DESCRIPTION)
        counters = cls.folder / "counters.csv"
        counters.write_text((ROOT / "deploy/counters/default-counters.csv").read_text(encoding="utf-8") +
                            MORE_COUNTERS, encoding="utf-8")
        kubelet_socket = cls.folder / "kubelet.sock"
        cls.kubelet = subprocess.Popen([BINARIES / "test_pod_resources", kubelet_socket], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.kubelet.communicate)
        cls.kubelet.stdout.readline()
        cls.exporter = free_port()
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(cls.node.root / LIBRARIES), "NODE_NAME": "node",
                       "DCGM_EXPORTER_LISTEN": f"127.0.0.1:{cls.exporter}", "DCGM_EXPORTER_COLLECTORS": str(counters),
                       "DCGM_EXPORTER_INTERVAL": "500", "DCGM_EXPORTER_KUBERNETES": "true",
                       "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE": "3000",
                       "DCGM_POD_RESOURCES_KUBELET_SOCKET": str(kubelet_socket)}
        cls.start("exporter", ["dcgm-exporter"], executable=BINARIES / "metrics_exporter_program", env=environment)

    @classmethod
    def start_operator(cls):
        server = apiserver.ApiServer().__enter__()
        cls.addClassCleanup(server.__exit__, None, None, None)
        server.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        server.allow_everything()
        for file in sorted((ROOT / "deploy/chart/gpu-operator/crds").glob("*.yaml")):
            for definition in filter(None, yaml.safe_load_all(file.read_text(encoding="utf-8"))):
                server.create_crd(definition)
        server.create("/apis/nvidia.com/v1/clusterpolicies",
                      {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
                       "spec": {name: {} for name in REQUIRED}})
        labels = {"feature.node.kubernetes.io/pci-10de.present": "true",
                  "feature.node.kubernetes.io/kernel-version.full": "6.1.0-37-amd64",
                  "feature.node.kubernetes.io/system-os_release.ID": "debian",
                  "feature.node.kubernetes.io/system-os_release.VERSION_ID": "12"}
        server.create("/api/v1/nodes", {"metadata": {"name": "node", "labels": labels}})
        cls.operator = free_port()
        environment = {"PATH": os.environ["PATH"], "HOME": str(cls.folder), "OPERATOR_NAMESPACE": NAMESPACE,
                       "KUBECONFIG": server.kubeconfig()}
        for name in ("DRIVER", "CONTAINER_TOOLKIT", "DEVICE_PLUGIN", "DCGM_EXPORTER", "DCGM", "VALIDATOR", "GFD",
                     "MIG_MANAGER", "DRIVER_MANAGER"):
            environment[f"{name}_IMAGE"] = f"registry.test/{name.lower()}:v1"
        cls.start("operator", [BINARIES / "pitcrew", "operator", "--manage-crds=false",
                               f"--metrics-bind-address=127.0.0.1:{cls.operator}",
                               "--health-probe-bind-address=127.0.0.1:0"], env=environment)

    @classmethod
    def start_prometheus(cls):
        cls.prometheus = PrometheusServer(cls.folder, [
            {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            for name, port in (("exporter", cls.exporter), ("operator", cls.operator))])
        cls.addClassCleanup(cls.prometheus.stop)

    def hold(self, pods):
        self.kubelet.stdin.write(json.dumps([{"namespace": "team", "pod": pod, "container": "main",
                                              "resource": "nvidia.com/gpu", "ids": [device]}
                                             for pod, device in pods]) + "\n")
        self.kubelet.stdin.flush()
        self.kubelet.stdout.readline()

    def firing(self):
        return {(labels["alertname"], labels.get("gpu")) for labels in self.prometheus.firing()}

    def test_1_every_panel_has_data(self):
        whole, mig = eventually(self.devices, "readings of GPUs and MIG instances")
        self.hold([("train", whole[0]), ("serve", mig[0])])
        self.node.gpu("xid", whole[1], "94")
        empty = [None]

        def complete():
            empty[0] = self.prometheus.empty_panels()
            return not empty[0]
        eventually(complete, lambda: f"panels without data: {empty[0]}")

    def devices(self):
        """UUIDs of the GPUs that are not divided and of the MIG devices, once Prometheus has seen them all."""
        if not self.prometheus.query('DCGM_FI_DEV_FB_USED{GPU_I_ID!=""}'):
            return None
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(self.node.root / LIBRARIES)}
        listed = subprocess.run([BINARIES / "pitcrew", "smi", "-L"], env=environment, capture_output=True, text=True,
                                check=True).stdout
        found = re.findall(r"UUID: ((?:GPU|MIG)-[0-9a-f-]+)", listed)
        return [uuid for uuid in found[1:] if uuid.startswith("GPU")], [uuid for uuid in found if uuid.startswith("MIG")]

    def test_2_alerts_fire_with_the_fault_and_end_with_it(self):
        seen = eventually(lambda: self.prometheus.query("DCGM_FI_DEV_GPU_TEMP"), "readings of GPUs")
        gpus = {series["metric"]["gpu"]: series["metric"]["UUID"] for series in seen}
        broken, hot = "2", "3"
        lost, slow = ("GPULost", broken), ("GPUSlowedByHeat", hot)
        eventually(lambda: not {lost, slow} & self.firing(), "no alert of these GPUs")
        self.node.gpu("lose", gpus[broken])
        self.node.gpu("throttle", gpus[hot], "hw-thermal")
        eventually(lambda: {lost, slow} <= self.firing(), lambda: f"{lost} and {slow} among {self.firing()}")
        self.node.gpu("restore", gpus[broken])
        self.node.gpu("throttle", gpus[hot], "none")
        eventually(lambda: not {lost, slow} & self.firing(), lambda: f"{lost} and {slow} end: {self.firing()}")


if __name__ == "__main__":
    unittest.main()
