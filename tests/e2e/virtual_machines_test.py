"""GPUs for virtual machines on a whole cluster: one node for containers, one that hands whole GPUs to virtual machines, one
that cuts them into vGPUs (cluster/clusters/virtual-machines.yaml).

One cluster serves all tests here, in the order of their names; each leaves the nodes as it found them.
"""

import json
import re
import subprocess
import unittest

import yaml

import support  # first: it sets the state folder
import virt_launcher
from cluster import api, chart

NAME = support.cluster_name()
# A fourth node, whose driver makes vGPUs without the kernel's mediated devices.
VENDOR = """  - name: gpu-vendor
    kernel: {iommu: true, vgpu: vendor}
    gpus: [{profile: L4}]
    labels: {nvidia.com/gpu.workload.config: vm-vgpu}
values:
"""
FILE = (support.ROOT / "cluster/clusters/virtual-machines.yaml").read_text(encoding="utf-8").replace(
    "values:\n", VENDOR, 1).replace("name: vm\n", f"name: {NAME}\n", 1)
NODES, PODS, SECONDS = support.NODES, support.PODS, support.SECONDS
CONTAINER, PASSTHROUGH, VGPU = "gpu-container", "gpu-vm", "gpu-vgpu"
# As the PCI ID database and the driver call them: 10de:27b8 is AD104GL [L4], and the default vGPU configuration cuts an
# A10 of 24 GB into two vGPUs of 12.
L4, A10_12Q = "AD104GL_L4", "NVIDIA_A10-12Q"
WORKLOAD = "nvidia.com/gpu.workload.config"
CONFIG, STATE, PROGRESS = "nvidia.com/vgpu.config", "nvidia.com/vgpu.config.state", "nvidia.com/vgpu.config.progress"
MODE = "nvidia.com/cc.mode"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def idle_pod(name, node):
    """It asked for a GPU, and runs nothing on it."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "nodeSelector": {"kubernetes.io/hostname": node},
                     "containers": [{"name": "main", "image": "docker.io/pitcrew/pitcrew:v26.7.0",
                                     "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", "exec sleep infinity"],
                                     "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}


class VirtualMachines(support.ClusterTest):
    NAME, FILE, VALUES = NAME, FILE, "{}"

    def wait_node(self, name, satisfied, what):
        node = self.client.wait(NODES, name, SECONDS, satisfied)
        if node is None:
            node = self.client.get(f"{NODES}/{name}")
            self.fail("\n".join([f"{name}: {what}", json.dumps(node["metadata"], indent=1),
                                 json.dumps(node["status"]["allocatable"]), *chart.behind(self.client, self.state)]))
        return node

    def await_offered(self, name, wanted):
        """Of NVIDIA's resources the node has these to give, by their names without prefix, and no other."""
        def offers(node):
            found = {key.removeprefix("nvidia.com/"): int(count) for key, count in node["status"]["allocatable"].items()
                     if key.startswith("nvidia.com/") and count != "0"}
            return found == wanted
        return self.wait_node(name, offers, f"{wanted} is to be allocatable, and nothing else")

    def drivers(self, node):
        """Which driver of the node has each of its GPUs (functions 0), by address."""
        said = self.on(node, "sh", "-c", "cd /sys/bus/pci/devices && for gpu in *.0; do "
                       "grep -q 0x10de $gpu/vendor && echo $gpu $(readlink $gpu/driver); done; true")
        return {words[0]: words[1].rsplit("/", 1)[-1] if len(words) > 1 else ""
                for words in (line.split() for line in said.splitlines())}

    def groups(self, node):
        """The IOMMU group of each of the node's GPUs."""
        return [self.on(node, "readlink", f"/sys/bus/pci/devices/{gpu}/iommu_group").rsplit("/", 1)[-1]
                for gpu in self.drivers(node)]

    def policy(self, spec):
        self.client.request("PATCH", f"{chart.POLICIES}/cluster-policy", {"spec": spec},
                            content_type="application/merge-patch+json")

    def use_kata(self):
        self.policy({"sandboxWorkloads": {"mode": "kata"}})
        self.addCleanup(self.policy, {"sandboxWorkloads": {"mode": "kubevirt"}})

    def await_mode(self, node, mode, ready):
        """Of confidential computing."""
        def says(one):
            labels = one["metadata"]["labels"]
            return (labels.get(f"{MODE}.state"), labels.get("nvidia.com/cc.ready.state")) == (mode, ready)
        self.wait_node(node, says, f"the mode is to be {mode}, and ready {ready!r}")

    def modes(self, node):
        """What the registers of the node's GPUs say."""
        return dict(line.split() for line in self.on(node, "cat", "/sys/simulation/modes").splitlines())

    def start_machine(self, name, resource, node):
        """The virtual machine's pod runs; what its log says of devices and variables, as (paths, variables)."""
        self.create(virt_launcher.pod(name, f"nvidia.com/{resource}", node))
        pod = self.client.wait(PODS, name, SECONDS, lambda one: api.has_condition(one, "ContainersReady")
                               or one["status"].get("phase") in ("Failed", "Succeeded"))
        self.assertIsNotNone(pod, chart.behind(self.client, self.state))
        self.assertTrue(api.has_condition(pod, "ContainersReady"), pod["status"])
        said = self.client.log("default", name)
        return (re.findall(r"^(/dev/vfio\S*)$", said, re.MULTILINE),
                dict(re.findall(r"^((?:MDEV_)?PCI_RESOURCE_[^=]*)=(.*)$", said, re.MULTILINE)))

    def test_10_every_node_offers_what_it_is_for(self):
        self.await_offered(CONTAINER, {"gpu": 2})
        self.await_offered(PASSTHROUGH, {L4: 2})
        self.await_offered(VGPU, {A10_12Q: 2})
        self.await_offered("gpu-vendor", {"NVIDIA_L4-12Q": 2})
        self.assertEqual(set(self.drivers(CONTAINER).values()), {"nvidia"})
        self.assertEqual(set(self.drivers(PASSTHROUGH).values()), {"vfio-pci"})
        self.assertEqual(set(self.drivers(VGPU).values()), {"nvidia"})

    def test_20_a_whole_gpu_for_a_virtual_machine(self):
        """virtualisation-and-olm.md #20, #2: each of two machines gets a GPU of its own, and the third waits."""
        self.await_offered(PASSTHROUGH, {L4: 2})
        groups = dict(zip(self.drivers(PASSTHROUGH), self.groups(PASSTHROUGH)))
        given = []
        for name in ("virt-launcher-a", "virt-launcher-b"):
            paths, variables = self.start_machine(name, L4, PASSTHROUGH)
            self.assertEqual(list(variables), ["PCI_RESOURCE_NVIDIA_COM_AD104GL_L4"])
            gpu = variables["PCI_RESOURCE_NVIDIA_COM_AD104GL_L4"]
            self.assertIn(gpu, groups)
            self.assertEqual(set(paths), {"/dev/vfio/vfio", f"/dev/vfio/{groups[gpu]}"})
            given.append(gpu)
        self.assertEqual(set(given), set(groups))
        self.create(virt_launcher.pod("virt-launcher-c", f"nvidia.com/{L4}", PASSTHROUGH))
        waits = self.client.wait(PODS, "virt-launcher-c", SECONDS, lambda one: (api.condition(one, "PodScheduled")
                                                                               or {}).get("status") == "False")
        self.assertIn(f"Insufficient nvidia.com/{L4}", api.condition(waits, "PodScheduled")["message"])

    def test_21_a_vgpu_for_a_virtual_machine(self):
        """virtualisation-and-olm.md #20"""
        self.await_offered(VGPU, {A10_12Q: 2})
        paths, variables = self.start_machine("virt-launcher-v", A10_12Q, VGPU)
        self.assertEqual(list(variables), ["MDEV_PCI_RESOURCE_NVIDIA_COM_NVIDIA_A10-12Q"])
        uuid = variables["MDEV_PCI_RESOURCE_NVIDIA_COM_NVIDIA_A10-12Q"]
        self.assertRegex(uuid, f"^{UUID}$")
        group = self.on(VGPU, "readlink", f"/sys/bus/mdev/devices/{uuid}/iommu_group").rsplit("/", 1)[-1]
        self.assertLessEqual({"/dev/vfio/vfio", f"/dev/vfio/{group}"}, set(paths))

    def test_22_a_vgpu_that_is_a_virtual_function(self):
        """virtualisation-and-olm.md #20"""
        paths, variables = self.start_machine("virt-launcher-f", "NVIDIA_L4-12Q", "gpu-vendor")
        self.assertEqual(list(variables), ["PCI_RESOURCE_NVIDIA_COM_NVIDIA_L4-12Q"])
        device = f"/sys/bus/pci/devices/{variables['PCI_RESOURCE_NVIDIA_COM_NVIDIA_L4-12Q']}"
        self.assertNotIn(self.on("gpu-vendor", "cat", f"{device}/nvidia/current_vgpu_type"), ("", "0"))
        group = self.on("gpu-vendor", "readlink", f"{device}/iommu_group").rsplit("/", 1)[-1]
        self.assertEqual(set(paths), {"/dev/vfio/vfio", f"/dev/vfio/{group}"})

    def test_30_other_vgpus_by_label(self):
        self.label(VGPU, CONFIG, "A10-6Q")
        self.await_offered(VGPU, {"NVIDIA_A10-6Q": 4})
        self.assertEqual(self.client.get(f"{NODES}/{VGPU}")["metadata"]["labels"][STATE], "success")
        self.label(VGPU, CONFIG, None)
        self.await_offered(VGPU, {A10_12Q: 2})

    def test_31_vgpus_that_do_not_fit_are_refused_before_anything_changes(self):
        """The configuration is none of an A10's."""
        before = self.on(VGPU, "ls", "/sys/bus/mdev/devices")
        self.label(VGPU, CONFIG, "A100-10C")
        node = self.wait_node(VGPU, lambda one: one["metadata"]["labels"].get(STATE) == "failed", "A100-10C")
        self.assertIn("A100-10C", json.loads(node["metadata"]["annotations"][PROGRESS])["message"])
        self.await_event(VGPU, "VgpuChangeFailed", "A100-10C")
        self.assertEqual(self.on(VGPU, "ls", "/sys/bus/mdev/devices"), before)
        self.label(VGPU, CONFIG, None)
        self.wait_node(VGPU, lambda one: one["metadata"]["labels"].get(STATE) == "success", "the default again")
        self.await_offered(VGPU, {A10_12Q: 2})

    def test_40_a_label_moves_a_node_from_one_use_to_the_next_and_back(self):
        """Each time the GPU ends in one hand: one driver has it, and one resource offers it."""
        round_ = [("container", {"gpu": 1}, "nvidia"), ("vm-passthrough", {"GA102GL_A10": 1}, "vfio-pci"),
                  ("vm-vgpu", {A10_12Q: 2}, "nvidia"), ("vm-passthrough", {"GA102GL_A10": 1}, "vfio-pci"),
                  ("container", {"gpu": 1}, "nvidia"), ("vm-vgpu", {A10_12Q: 2}, "nvidia")]
        for workload, offered, driver in round_:
            with self.subTest(workload):
                self.label(VGPU, WORKLOAD, workload)
                self.await_offered(VGPU, offered)
                self.assertEqual(set(self.drivers(VGPU).values()), {driver})

    def test_41_pods_leave_before_their_gpu_goes_to_virtual_machines_and_back(self):
        """Neither of them has a device of its GPU open, and neither VFIO nor vGPU manager may evict by default."""
        for workload, pod, resource, then, offered in (
                ("container", idle_pod("notebook", VGPU), {"gpu": 1},
                 "vm-passthrough", {"GA102GL_A10": 1}),
                ("vm-passthrough", virt_launcher.pod("virt-launcher-idle", "nvidia.com/GA102GL_A10", VGPU),
                 {"GA102GL_A10": 1}, "vm-vgpu", {A10_12Q: 2})):
            with self.subTest(then):
                self.label(VGPU, WORKLOAD, workload)
                self.await_offered(VGPU, resource)
                name = pod["metadata"]["name"]
                self.create(pod)
                self.assertIsNotNone(self.client.wait(PODS, name, SECONDS, lambda one: api.has_condition(
                    one, "ContainersReady")), chart.behind(self.client, self.state))
                self.label(VGPU, WORKLOAD, then)
                self.await_event(VGPU, "GpuPodsRemain", f"kubectl delete pod --namespace default {name}")
                self.assertNotIn("vfio-pci" if then == "vm-passthrough" else "nvidia", self.drivers(VGPU).values())
                self.client.delete(f"{PODS}/{name}")
                self.await_offered(VGPU, offered)

    def test_42_some_gpus_of_a_node_for_virtual_machines(self):
        """Of two GPUs each side has one, and offers it under its own name; then containers have both again."""
        first, second = sorted(self.drivers(CONTAINER))
        self.addCleanup(self.divide, None)
        for chosen, offered in ((second, {"gpu": 1, "GH100_H100_SXM5_80GB": 1}), (None, {"gpu": 2})):
            with self.subTest(chosen=chosen):
                self.divide(chosen)
                self.await_offered(CONTAINER, offered)
                self.assertEqual(self.drivers(CONTAINER),
                                 {first: "nvidia", second: "vfio-pci" if chosen else "nvidia"})
                if chosen:
                    _, variables = self.start_machine("virt-launcher-d", "GH100_H100_SXM5_80GB", CONTAINER)
                    self.assertEqual(list(variables.values()), [second])
                    self.client.delete(f"{PODS}/virt-launcher-d")
                    self.client.wait_gone(PODS, "virt-launcher-d", SECONDS)

    def pods_of(self, app, node=None):
        return [pod for pod in self.client.get(support.OPERATOR_PODS)["items"]
                if pod["metadata"]["labels"].get("app") == app and node in (None, pod["spec"].get("nodeName"))]

    def set_operators(self, count):
        """Waits for the last one's end."""
        self.client.request("PATCH", f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/deployments/gpu-operator",
                            {"spec": {"replicas": count}}, content_type="application/merge-patch+json")
        if not count:
            support.eventually(lambda: not self.pods_of("gpu-operator"), "no operator", SECONDS)

    def test_43_a_toolkit_that_began_under_the_vgpu_manager_sees_the_next_driver(self):
        """Its first container is bound to the root of the vGPU manager, and has to start anew for that of the driver. By
        itself the toolkit begins so early in few of many changes."""
        self.addCleanup(self.await_offered, VGPU, {A10_12Q: 2})
        self.addCleanup(self.label, VGPU, WORKLOAD, "vm-vgpu")
        self.await_offered(VGPU, {A10_12Q: 2})
        self.set_operators(0)
        try:
            self.label(VGPU, "nvidia.com/gpu.deploy.container-toolkit", "true")
            support.eventually(lambda: any(
                "running" in status["state"] for pod in self.pods_of("nvidia-container-toolkit-daemonset", VGPU)
                for status in pod["status"].get("initContainerStatuses", [])), "the toolkit's first container", SECONDS)
            self.label(VGPU, WORKLOAD, "container")
        finally:
            self.set_operators(1)
        self.await_offered(VGPU, {"gpu": 1})

    def divide(self, addresses):
        """The annotation counts from the next start of the driver's pod."""
        self.client.request("PATCH", f"{NODES}/{CONTAINER}", {"metadata": {"annotations": {
            "nvidia.com/gpu-operator.gpus-for-virtual-machines": addresses}}}, content_type="application/merge-patch+json")
        for pod in self.client.get(support.OPERATOR_PODS)["items"]:
            if pod["spec"].get("nodeName") == CONTAINER and pod["metadata"]["labels"].get("app") == "nvidia-driver-daemonset":
                self.client.delete(f"{support.OPERATOR_PODS}/{pod['metadata']['name']}", own_grace=True)

    def test_50_an_unknown_workload_is_told_and_changes_nothing(self):
        before = self.client.get(f"{NODES}/{PASSTHROUGH}")["metadata"]["labels"]
        self.label(PASSTHROUGH, WORKLOAD, "vm-passthru")
        self.await_event(PASSTHROUGH, "UnknownWorkload", "vm-passthru")
        told = subprocess.run([support.BUILD / "bin/pitcrew", "doctor", PASSTHROUGH,
                               f"--kubeconfig={self.state.kubeconfig}"], capture_output=True, text=True, check=False)
        self.assertIn("workload-unknown", told.stdout, told.stderr)
        after = self.client.get(f"{NODES}/{PASSTHROUGH}")["metadata"]["labels"]
        self.assertEqual(after, {**before, WORKLOAD: "vm-passthru"})
        self.assertEqual(set(self.drivers(PASSTHROUGH).values()), {"vfio-pci"})
        self.label(PASSTHROUGH, WORKLOAD, "vm-passthrough")
        self.await_offered(PASSTHROUGH, {L4: 2})

    def test_60_kata_containers(self):
        """virtualisation-and-olm.md #56: on nodes for passthrough Kata's plugin takes the place of KubeVirt's."""
        self.use_kata()
        self.await_offered(PASSTHROUGH, {"pgpu": 2})
        specification = yaml.safe_load(self.on(PASSTHROUGH, "cat", "/var/run/cdi/nvidia.com-pgpu.yaml"))
        self.assertEqual(specification["kind"], "nvidia.com/pgpu")
        devices = {device["name"]: [node["path"] for node in device["containerEdits"]["deviceNodes"]]
                   for device in specification["devices"]}
        self.assertEqual(devices, {name: ["/dev/vfio/vfio", f"/dev/vfio/{name}"] for name in self.groups(PASSTHROUGH)})

    def status(self):
        told = subprocess.run([support.BUILD / "bin/pitcrew", "status", f"--kubeconfig={self.state.kubeconfig}"],
                              capture_output=True, text=True, check=False)
        return told.returncode, told.stdout + told.stderr

    def test_61_back_from_kata_nobody_is_missed(self):
        """For five minutes the kubelet remembers what Kata's plugin has offered; that is no fault of the node."""
        self.await_offered(PASSTHROUGH, {L4: 2})
        self.assertIn("nvidia.com/pgpu", self.client.get(f"{NODES}/{PASSTHROUGH}")["status"]["capacity"])
        support.eventually(lambda: self.status()[0] == 0, lambda: self.status()[1], SECONDS, pause=1)

    def test_62_modes_of_confidential_computing(self):
        """virtualisation-and-olm.md #62, #66: the label decides the mode of the GPUs, and is told what it is; the host
        that can run confidential virtual machines has its GPUs ready for them without a label."""
        self.use_kata()
        # L4s have no modes, and no node must wait for what it cannot be.
        self.await_mode(PASSTHROUGH, "off", "false")
        self.label(CONTAINER, WORKLOAD, "vm-passthrough")
        self.addCleanup(self.await_offered, CONTAINER, {"gpu": 2})
        self.addCleanup(self.label, CONTAINER, WORKLOAD, "container")
        self.addCleanup(self.label, CONTAINER, MODE, None)
        gpus = self.drivers(CONTAINER)
        # The last is what no label asks for.
        for mode, ready in ((None, "true"), ("devtools", ""), ("off", "false"), ("ppcie", "true"), (None, "true")):
            with self.subTest(mode):
                self.label(CONTAINER, MODE, mode)
                self.await_mode(CONTAINER, mode or "on", ready)
                self.assertEqual(self.modes(CONTAINER), {gpu: mode or "on" for gpu in gpus})
                self.await_offered(CONTAINER, {"pgpu": 2})
        self.label(CONTAINER, MODE, "maybe")
        self.await_mode(CONTAINER, "failed", "")
        self.await_event(CONTAINER, "CcModeChangeFailed", 'no mode "maybe"')
        self.assertEqual(self.modes(CONTAINER), {gpu: "on" for gpu in gpus})
        self.label(CONTAINER, MODE, "off")
        self.await_mode(CONTAINER, "off", "false")


if __name__ == "__main__":
    unittest.main()
