#!/usr/bin/env python3
"""Every container that the operator makes of the chart's policy starts a program that its image has.

The chart renders the policy, `pitcrew plan` says what the operator makes of it, and each container's command is held
against the lists of programs that the chart's images are chosen by (files/nvidia-images.yaml, files/image-programs.yaml).
"""

import os
import re
import subprocess
import tempfile
import unittest

import yaml

import support

PITCREW = os.environ["PITCREW_PROGRAM"]
NVIDIA_IMAGES = yaml.safe_load((support.CHART / "files/nvidia-images.yaml").read_text())
PROGRAMS = set(yaml.safe_load((support.CHART / "files/image-programs.yaml").read_text())["programs"])
OURS = "docker.io/pitcrew/pitcrew:v26.7.0"
WORKLOADS = ("container", "vm-passthrough", "vm-vgpu")
# Everything that can be switched on beside the defaults, with the sandbox operands of both modes.
VARIANTS = {
    "default": {},
    "everything": {"nodeStatusExporter.enabled": True, "dcgm.enabled": True, "gds.enabled": True,
                   "gdrcopy.enabled": True, "driver.rdma.enabled": True, "migManager.enabled": True},
    "plugin configuration": {"devicePlugin.config.name": "sharing", "devicePlugin.config.default": "four"},
    "kubevirt": {"sandboxWorkloads.enabled": True, "vgpuManager.enabled": True, "vgpuManager.version": "580",
                 "vgpuManager.repository": "registry.example/vgpu"},
    "NRI plugin": {"cdi.nriPluginEnabled": True},
    "kata": {"sandboxWorkloads.enabled": True, "sandboxWorkloads.mode": "kata"},
}
# Words of a shell script that are no programs of the image, and what every image with a shell has.
SHELL = {"if", "then", "else", "elif", "fi", "while", "until", "for", "do", "done", "case", "esac", "!", "{", "}", "exec",
         "in", "function", ""}
BUILT_IN = {"set", ".", "trap", "exit", "return", "echo", "command", "wait", "[", ":", "shift", "true", "false", "read",
            "local", "export", "sleep", "grep", "rm", "touch", "mkdir", "cat", "ls"}


def cluster():
    """Nodes of every workload, and what the policies refer to."""
    objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sharing", "namespace": "gpu-operator"},
                "data": {"four": "version: v1"}}]
    for workload in WORKLOADS:
        labels = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.workload.config": workload,
                  "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
                  "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
                  "feature.node.kubernetes.io/kernel-version.full": "6.8.0-60-generic"}
        objects.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": workload, "labels": labels},
                        "status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.0.0",
                                                "kubeletVersion": "v1.35.0"}}})
    return objects


def plan(values):
    """The objects that the operator makes of the chart's policy with these values."""
    body = support.render(values=values)["ClusterPolicy/cluster-policy"]
    with tempfile.TemporaryDirectory() as folder:
        files = {"policy": [body], "cluster": cluster()}
        for name, objects in files.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as stream:
                yaml.safe_dump_all(objects, stream)
        result = subprocess.run([PITCREW, "plan", "-f", f"{folder}/policy", "--cluster", f"{folder}/cluster", "-o",
                                 "yaml"], capture_output=True, text=True, check=False)
    if result.returncode not in (0, 3):
        raise AssertionError(result.stderr)
    return [body for body in yaml.safe_load_all(result.stdout) if body]


def commands_of_script(script):
    """The first word of every command of a shell script."""
    script = re.sub(r"\\\n|#.*", " ", script)
    for statement in re.split(r"[\n;|&]+|\bdo\b|\bthen\b", script):
        words = [word for word in statement.split() if not re.match(r"^\w+=", word)]
        while words and words[0] in SHELL:
            words.pop(0)
        if words and re.match(r"^[\w./:\[-]+$", words[0]) and not words[0].endswith("()"):
            yield words[0]


class Containers:
    """Every container of the planned DaemonSets: (its DaemonSet, the container, the programs that it starts; none
    for one that only waits, which every image with a shell can)."""

    def __init__(self, values):
        self.objects = plan(values)
        self.configured = "devicePlugin.config.name" in values
        self.scripts = {body["metadata"]["name"]: body["data"]["entrypoint.sh"] for body in self.objects
                        if body["kind"] == "ConfigMap" and "entrypoint.sh" in body.get("data", {})}

    def __iter__(self):
        for body in self.objects:
            if body["kind"] != "DaemonSet":
                continue
            pod = body["spec"]["template"]["spec"]
            # Feature discovery labels a node so only for a plugin configuration with MPS.
            if "nvidia.com/mps.capable" in pod.get("nodeSelector", {}) and not self.configured:
                continue
            for container in pod.get("initContainers", []) + pod["containers"]:
                yield body["metadata"]["name"], container, self.programs(pod, container)

    def programs(self, pod, container):
        words = container.get("command", []) + container.get("args", [])
        asked = next((item["value"] for item in container.get("env", []) if item["name"] == "PITCREW_COMMAND"), None)
        if not words and asked:
            return {asked}
        if not words:
            image = container["image"].rsplit("/", 1)[1].split(":")[0]
            return {f"entry point of {image}"}
        shell = words[0].rsplit("/", 1)[-1] in ("sh", "bash") and len(words) > 2
        found = set(commands_of_script(words[2])) if shell else {words[0]}
        found = {program for name in found for program in self.resolve(pod, container, name)}
        return {self.with_component(container, name) for name in found
                if name not in BUILT_IN and not name.startswith("wait_") and name != "pitcrew"}

    def resolve(self, pod, container, name):
        """The commands of the script where the name is a mounted one."""
        for mount in container.get("volumeMounts", []):
            if mount["mountPath"] != name:
                continue
            for volume in pod["volumes"]:
                if volume["name"] == mount["name"] and volume.get("configMap", {}).get("name") in self.scripts:
                    return set(commands_of_script(self.scripts[volume["configMap"]["name"]]))
        return {name}

    @staticmethod
    def with_component(container, name):
        """A program that does several things, with the one that it is to do here."""
        env = {item["name"]: item.get("value") for item in container.get("env", [])}
        if name == "nvidia-validator":
            return f"{name} {env['COMPONENT']}"
        if name == "dcgm-exporter" and "DCGM_REMOTE_HOSTENGINE_INFO" in env:
            return f"{name} --remote-hostengine-info"
        return name


class Programs(unittest.TestCase):
    maxDiff = None

    def test_our_image_is_asked_only_for_what_it_has(self):
        for name, values in VARIANTS.items():
            seen = 0
            for daemonset, container, programs in Containers(values):
                with self.subTest(name, daemonset=daemonset, container=container["name"]):
                    if container["image"] == OURS:
                        seen += 1
                        self.assertLessEqual(programs, PROGRAMS)
            self.assertGreater(seen, 5 if name != "kata" else 3)

    def test_our_images_entry_point_takes_what_stands_in_the_place_of_a_command(self):
        """kubevirt-device-plugin.md section 1: upstream's image has a command and no entry point, so that arguments of
        the policy begin with the program. Ours has an entry point, behind which they come."""
        seen = set()
        for values in VARIANTS.values():
            for daemonset, container, programs in Containers(values):
                if container["image"] != OURS or "command" in container:
                    continue
                seen |= programs
                environment = {item["name"]: item["value"] for item in container.get("env", []) if "value" in item}
                result = subprocess.run([PITCREW, *container.get("args", []), "--help"], env=environment,
                                        capture_output=True, text=True, check=False)
                self.assertEqual(result.returncode, 0, f"{daemonset}: {result.stderr}")
                self.assertNotIn("usage: pitcrew COMMAND", result.stdout, daemonset)
        self.assertEqual(seen, {"nvidia-kubevirt-gpu-device-plugin", "k8s-cc-manager"})

    def test_programs_of_each_image_are_those_of_the_table(self):
        """The images are chosen by this table, so it has to be complete, and nothing in it may be made up."""
        mirrors = {f"{path}.repository": f"{path.lower()}.example" for path in NVIDIA_IMAGES}
        found = {path: set() for path in NVIDIA_IMAGES}
        for values in VARIANTS.values():
            for _, container, programs in Containers({**values, **mirrors, "images.source": "nvidia"}):
                for path, used in found.items():
                    if container["image"].startswith(f"{path.lower()}.example/"):
                        used |= programs
        for path, entry in NVIDIA_IMAGES.items():
            with self.subTest(path):
                when = [program for programs in entry.get("when", {}).values() for program in programs]
                self.assertEqual(found[path], {*entry["programs"], *when})

    def test_containers_of_the_chart_itself(self):
        seen = 0
        for name, body in support.render().items():
            if body["kind"] not in ("Deployment", "DaemonSet", "Job"):
                continue
            for container in body["spec"]["template"]["spec"]["containers"]:
                with self.subTest(name):
                    seen += 1
                    self.assertEqual(container["image"], OURS)
                    self.assertIn(container["command"][0].rsplit("/", 1)[-1], PROGRAMS)
        self.assertGreaterEqual(seen, 5)


if __name__ == "__main__":
    unittest.main()
