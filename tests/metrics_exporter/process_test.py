#!/usr/bin/env python3
"""The metrics exporter as a process on simulated GPUs: what it writes is held by promtool, 200 pods come and go, it ends by
a signal and starts again after a kill. The folder of the build's programs is the only argument."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests/differential/node"))

import apiserver  # noqa: E402
from processes import eventually, free_port  # noqa: E402
from simulated_node import LIBRARIES, SimulatedNode  # noqa: E402

BINARIES = pathlib.Path(sys.argv.pop()).resolve()
DESCRIPTION = {"gpus": [{"profile": "H100-80", "mig": {"enabled": True, "devices": {"1g.10gb": 7}}},
                        {"profile": "H100-80", "count": 2, "load": 50}, {"profile": "T4"}]}
# Everything that is off in the default file, too, and metrics of links.
MORE = """DCGM_EXP_XID_ERRORS_COUNT, gauge, x
DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, x
DCGM_EXP_GPU_HEALTH_STATUS, gauge, x
DCGM_EXP_P2P_STATUS, gauge, x
DCGM_FI_DEV_NVLINK_GET_STATE, gauge, x
DCGM_FI_DEV_NVLINK_THROUGHPUT_PER_LINK, gauge, x
DCGM_FI_DEV_SERIAL, label, x
DCGM_FI_DEV_BRAND, gauge, a text without the type label
DCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, of no GPU
"""
# What promtool says of upstream's names: counters that do not end in _total, and the like.
SAMPLE = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
                    r'(,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*\})? [-+0-9.eEinfNa]+')


class Process(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-exporter-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.node = SimulatedNode(cls.folder / "node", BINARIES, DESCRIPTION)
        cls.counters = cls.folder / "counters.csv"
        default = (ROOT / "deploy/counters/default-counters.csv").read_text(encoding="utf-8")
        cls.counters.write_text(default + MORE, encoding="utf-8")
        cls.socket = cls.folder / "kubelet.sock"
        cls.kubelet = subprocess.Popen([BINARIES / "test_pod_resources", cls.socket], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.kubelet.communicate)
        cls.kubelet.stdout.readline()

    def start(self):
        self.port = free_port()
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(self.node.root / LIBRARIES), "NODE_NAME": "node",
                       "DCGM_EXPORTER_LISTEN": f"127.0.0.1:{self.port}", "DCGM_EXPORTER_COLLECTORS": str(self.counters),
                       "DCGM_EXPORTER_INTERVAL": "200", "DCGM_EXPORTER_KUBERNETES": "true",
                       "DCGM_POD_RESOURCES_KUBELET_SOCKET": str(self.socket)}
        exporter = subprocess.Popen(["dcgm-exporter"], executable=BINARIES / "metrics_exporter_program", env=environment,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(exporter.communicate)
        self.addCleanup(exporter.kill)
        # It says where it listens once it does.
        for line in exporter.stderr:
            if "listening" in line:
                return exporter
        return self.fail(f"the exporter ended with {exporter.wait()}")

    def page(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        text = answer.read().decode()
        connection.close()
        return text

    def hold(self, pods):
        self.kubelet.stdin.write(json.dumps([{"namespace": "team", "pod": pod, "container": "main",
                                              "resource": "nvidia.com/gpu", "ids": [device]}
                                             for pod, device in pods]) + "\n")
        self.kubelet.stdin.flush()
        self.kubelet.stdout.readline()

    def uuids(self, page):
        return sorted(set(re.findall(r'UUID="([^"]+)"', page)))

    def test_1_prometheus_takes_the_page(self):
        """metrics-exporter.md #16: numbers, labels and types as Prometheus reads them."""
        self.start()
        first = self.page()
        self.hold([("a", self.uuids(first)[0]), ("b", f"{self.uuids(first)[1]}::0"), ("c", f"{self.uuids(first)[1]}::1")])
        text = eventually(lambda: "\nDCGM_FI_PROF_DRAM_ACTIVE{" in (page := self.page()) and page, "two samples")
        for beginning in ("\nDCGM_FI_PROF_DRAM_ACTIVE{", "\nDCGM_FI_DEV_NVLINK_GET_STATE{nvlink=",
                          "# DCGM_FI_DEV_BRAND has no value: it is a text",
                          "# DCGM_FI_DEV_CPU_UTIL_TOTAL has no value: of the processor"):
            self.assertTrue(beginning in text, beginning)
        series = set()
        for line in text.splitlines():
            if not line.startswith("#"):
                self.assertRegex(line, f"^{SAMPLE.pattern}$")
                self.assertNotIn(line.rsplit(" ", 1)[0], series)
                series.add(line.rsplit(" ", 1)[0])
        checked = subprocess.run([apiserver.find_program("promtool"), "check", "metrics"], input=text, text=True,
                                 capture_output=True, check=False)
        # 3: it has something to say about names, which are upstream's.
        self.assertIn(checked.returncode, (0, 3), checked.stderr)
        self.assertNotIn("error while linting", checked.stderr)
        for line in checked.stderr.splitlines():
            self.assertRegex(line, r"^(DCGM_|pitcrew_metrics_exporter_round_)")

    def test_2_many_pods_come_and_go(self):
        self.start()
        uuid = self.uuids(self.page())[0]
        for turn in range(20):
            names = [f"pod-{turn}-{i}" for i in range(200)]
            self.hold([(name, f"{uuid}::{i}") for i, name in enumerate(names)])
            # A kubelet that answers late is not waited for: the page then has the pods of before.
            eventually(lambda names=names: set(re.findall(r'pod="([^"]+)"', self.page())) == set(names),
                       f"the pods of turn {turn}")
        self.hold([])
        eventually(lambda: "pod=" not in self.page(), "no pod is left")

    def test_3_a_signal_ends_it_and_a_kill_leaves_nothing(self):
        """metrics-exporter.md #57: SIGTERM ends it with 0."""
        exporter = self.start()
        exporter.send_signal(signal.SIGTERM)
        self.assertEqual(exporter.wait(240), 0)
        exporter = self.start()
        exporter.kill()
        exporter.wait(240)
        self.start()
        self.assertTrue("\nDCGM_FI_DEV_GPU_TEMP{" in self.page())


if __name__ == "__main__":
    unittest.main()
