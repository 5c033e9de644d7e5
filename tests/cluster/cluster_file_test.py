"""A malformed cluster file is told with file, line, what is wrong and what would be right, before anything else."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from cluster import description, up  # noqa: E402
from cluster.errors import ClusterError, MalformedInput  # noqa: E402

# (text, line of the mistake, words that the message must have)
MALFORMED = {
    "not YAML": ("nodes:\n  - name: a\n  gpus: [\n", 3, ["not valid YAML"]),
    "empty": ("", 1, ["empty"]),
    "not a mapping": ("- a\n", 1, ["must be a mapping"]),
    "no nodes": ("name: local\n", 1, ["`nodes`"]),
    "empty list of nodes": ("nodes: []\n", 1, ["1 to"]),
    "a misspelt key": ("nodes:\n  - name: a\n    gpu: []\n", 3, ["no key `gpu`", "did you mean `gpus`?"]),
    "a key twice": ("nodes:\n  - name: a\nnodes:\n  - name: b\n", 3, ["stands twice"]),
    "a node without name": ("nodes:\n  - gpus: []\n", 2, ["no `name`"]),
    "a name that is none": ("nodes:\n  - name: Node_1\n", 2, ["node name `Node_1`"]),
    "two nodes of one name": ("nodes:\n  - name: a\n  - name: a\n", 3, ["two nodes are named `a`"]),
    "a cluster name too long": ("name: production\nnodes:\n  - name: a\n", 1, ["1 to 7"]),
    "another Kubernetes": ("kubernetes: \"1.29\"\nnodes:\n  - name: a\n", 1, ["1.29", "1.35"]),
    "gpus that are no list": ("nodes:\n  - name: a\n    gpus: H100-80\n", 3, ["gpus must be a list", "`machine`"]),
    "a driver beside the machine's GPUs": ("nodes:\n  - name: a\n    gpus: machine\n    driver: host\n", 4,
                                           ["about simulated GPUs"]),
    "the machine's GPUs twice": ("nodes:\n  - name: a\n    gpus: machine\n  - name: b\n    gpus: machine\n", 4,
                                 ["only one may"]),
    "a GPU without profile": ("nodes:\n  - name: a\n    gpus:\n      - {count: 8}\n", 4, ["no `profile`"]),
    "a count that is none": ("nodes:\n  - name: a\n    gpus:\n      - {profile: L4, count: many}\n", 4, ["count `many`"]),
    "too many GPUs": ("nodes:\n  - name: a\n    gpus:\n      - {profile: L4, count: 64}\n", 4, ["1 to 16"]),
    "an unknown driver": ("nodes:\n  - name: a\n    gpus: [{profile: L4}]\n    driver: dkms\n", 4, ["none, host"]),
    "a kernel without GPU": ("nodes:\n  - name: a\n    kernel: {iommu: true}\n", 3, ["has none"]),
    "a kernel that is no mapping": ("nodes:\n  - name: a\n    gpus: [{profile: L4}]\n    kernel: new\n", 4,
                                    ["must be a mapping"]),
    "a driver without GPU": ("nodes:\n  - name: a\n    driver: host\n", 3, ["without gpus"]),
    "a version without driver": ("nodes:\n  - name: a\n    driverVersion: 580.1\n", 3, ["driver: host"]),
    "a label of Kubernetes": ("nodes:\n  - name: a\n    labels:\n      node-role.kubernetes.io/x: \"\"\n", 4,
                              ["Kubernetes keeps"]),
    "a label's value": ("nodes:\n  - name: a\n    labels: {a/b: \"c d\"}\n", 3, ["value of label a/b"]),
    "a taint without effect": ("nodes:\n  - name: a\n    taints:\n      - {key: a/b}\n", 4, ["no `effect`"]),
    "an unknown topology policy": ("nodes:\n  - name: a\n    topologyPolicy: numa\n", 3, ["single-numa-node"]),
    "values that are no mapping": ("nodes:\n  - name: a\nvalues: [sandboxWorkloads]\n", 3, ["must be a mapping"]),
    "an unknown effect": ("nodes:\n  - name: a\n    taints: [{key: a/b, effect: Never}]\n", 3, ["NoSchedule"]),
}


def _machine(folder: str, devices: dict[str, tuple[str, str]], driver: bool) -> tuple[pathlib.Path, pathlib.Path]:
    """A /sys with PCI devices {address: (vendor, class)}, and a /proc with a loaded driver or without."""
    sysfs, proc = pathlib.Path(folder) / "sys", pathlib.Path(folder) / "proc"
    for address, (vendor, kind) in devices.items():
        device = sysfs / "bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n", encoding="ascii")
        (device / "class").write_text(f"{kind}\n", encoding="ascii")
    if driver:
        (proc / "driver/nvidia").mkdir(parents=True)
        (proc / "driver/nvidia/version").write_text("NVRM version: 580.159.04\n", encoding="ascii")
    return sysfs, proc


class GpusOfTheMachine(unittest.TestCase):
    GPU = {"0000:00:06.0": ("0x10de", "0x030200")}
    OTHERS = {"0000:00:01.0": ("0x1af4", "0x018000"), "0000:00:02.0": ("0x10de", "0x068000")}  # a disk, an NVSwitch

    def check(self, devices, driver):
        with tempfile.TemporaryDirectory() as folder:
            up.check_machine_gpus("a", *_machine(folder, devices, driver))

    def test_a_gpu_with_its_driver_will_do(self):
        self.check(self.OTHERS | self.GPU, True)

    def test_a_machine_without_is_told_before_anything_is_made(self):
        with self.assertRaisesRegex(ClusterError, "the machine has none"):
            self.check(self.OTHERS, True)

    def test_a_driver_that_is_not_loaded_is_told(self):
        with self.assertRaisesRegex(ClusterError, "driver is not loaded"):
            self.check(self.GPU, False)


class Root(unittest.TestCase):
    def check(self, text):
        with tempfile.NamedTemporaryFile("w", suffix="mountinfo") as file:
            file.write(text)
            file.flush()
            up.check_root(pathlib.Path(file.name))

    def test_a_root_that_is_a_mount_will_do(self):
        self.check("23 29 0:21 / /sys rw - sysfs sysfs rw\n29 1 254:0 / / rw - ext4 /dev/vda rw\n")

    def test_a_chroot_is_told_what_to_do(self):
        with self.assertRaisesRegex(ClusterError, "systemd-nspawn"):
            self.check("23 29 0:21 / /sys rw - sysfs sysfs rw\n")


class ClusterFile(unittest.TestCase):
    def test_every_mistake_has_its_line_and_what_would_be_right(self):
        for name, (text, line, words) in MALFORMED.items():
            with self.subTest(name):
                with self.assertRaises(MalformedInput) as caught:
                    description.parse(text, pathlib.Path("my.yaml"))
                message = str(caught.exception)
                self.assertTrue(message.startswith(f"my.yaml:{line}: "), message)
                for word in words:
                    self.assertIn(word, message)

    def test_the_machines_gpus_are_no_simulated_ones(self):
        node = description.parse("nodes:\n  - name: a\n    gpus: machine\n", pathlib.Path("my.yaml")).nodes[0]
        self.assertTrue(node.machine_gpus)
        self.assertEqual(node.gpus, [])

    def test_the_files_that_come_along_are_valid(self):
        files = sorted((ROOT / "cluster/clusters").glob("*.yaml"))
        self.assertTrue(files)
        names = [description.load(path).name for path in files]
        self.assertEqual(len(names), len(set(names)), "two example clusters of one name cannot be up together")

    def test_the_default_is_what_the_readme_says(self):
        nodes = {node.name: node for node in description.load(description.DEFAULT_FILE).nodes}
        self.assertEqual(nodes["gpu-a"].gpus, [{"profile": "H100-80", "count": 8}])
        self.assertEqual(len({entry["profile"] for entry in nodes["gpu-b"].gpus}), 2)
        self.assertEqual(nodes["cpu-a"].gpus, [])

    def test_the_command_ends_with_2_and_touches_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bad.yaml"
            path.write_text("nodes:\n  - name: a\n    gpu: []\n", encoding="utf-8")
            result = subprocess.run([sys.executable, "-m", "cluster", "up", str(path)], cwd=ROOT, text=True,
                                    capture_output=True, check=False,
                                    env={"PATH": "/usr/bin:/bin", "PITCREW_STATE": f"{folder}/state"})
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"{path}:3: ", result.stderr)
            self.assertFalse((pathlib.Path(folder) / "state").exists())

    def test_values_for_the_chart_are_handed_on_and_make_no_other_cluster(self):
        text = "nodes:\n  - name: a\n"
        plain = description.parse(text, pathlib.Path("my.yaml"))
        valued = description.parse(text + "values:\n  sandboxWorkloads: {enabled: true}\n", pathlib.Path("my.yaml"))
        self.assertEqual(plain.values, {})
        self.assertEqual(valued.values, {"sandboxWorkloads": {"enabled": True}})
        self.assertEqual(plain.plain(), valued.plain())

    def test_a_file_that_is_not_there(self):
        with self.assertRaises(MalformedInput) as caught:
            description.load(pathlib.Path("/nonexistent/cluster.yaml"))
        self.assertIn("/nonexistent/cluster.yaml", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
