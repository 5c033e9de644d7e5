#!/usr/bin/env python3
"""The Helm items of clusterpolicy-api.md's conformance checklist, and what the chart promises besides."""

import functools
import json
import re
import unittest

import yaml

import support

OURS = ("docker.io/pitcrew", "pitcrew", "v26.7.0")
PROGRAMS = set(yaml.safe_load((support.CHART / "files/image-programs.yaml").read_text())["programs"])
NVIDIA_IMAGES = yaml.safe_load((support.CHART / "files/nvidia-images.yaml").read_text())


def walk(spec, path=""):
    """Every block of a spec that names an image, by its path."""
    for name, member in spec.items():
        if isinstance(member, dict):
            where = f"{path}.{name}" if path else name
            if "image" in member:
                yield where, member
            yield from walk(member, where)


def reference(block):
    return block["repository"], block["image"], block.get("version", "v26.7.0")


class Checklist(unittest.TestCase):
    """clusterpolicy-api.md section 10."""

    def test_37_default_render(self):
        """clusterpolicy-api.md #37"""
        objects = support.render()
        custom = [name for name, item in objects.items() if item["apiVersion"].startswith("nvidia.com/")]
        self.assertEqual(custom, ["ClusterPolicy/cluster-policy"])
        spec = objects[custom[0]]["spec"]
        self.assertIs(spec["driver"]["useNvidiaDriverCRD"], False)
        self.assertEqual(spec["validator"]["version"], "v26.7.0")
        self.assertNotIn("use_ocp_driver_toolkit", spec["operator"])
        self.assertNotIn("mps", spec["devicePlugin"])
        self.assertEqual(spec["migManager"]["config"]["default"], "all-disabled")

    def test_38_drivers_of_their_own_objects(self):
        """clusterpolicy-api.md #38"""
        objects = support.render("--set", "driver.nvidiaDriverCRD.enabled=true")
        driver = objects["ClusterPolicy/cluster-policy"]["spec"]["driver"]
        self.assertEqual(set(driver), {"enabled", "useNvidiaDriverCRD", "upgradePolicy"})
        self.assertIs(driver["useNvidiaDriverCRD"], True)
        spec = objects["NVIDIADriver/default"]["spec"]
        self.assertIs(spec["default"], True)
        self.assertNotIn("nodeSelector", spec)
        for values in ("driver.enabled=false", "driver.nvidiaDriverCRD.deployDefaultCR=false"):
            objects = support.render("--set", "driver.nvidiaDriverCRD.enabled=true", "--set", values)
            self.assertNotIn("NVIDIADriver/default", objects)

    def test_39_combinations_that_cannot_work(self):
        """clusterpolicy-api.md #39: the golden cases refused-* hold the messages; this is the table of the checklist."""
        for values in ({"gpuCluster.deployCR": True},
                       {"clusterPolicy.deployCR": False, "gpuCluster.deployCR": True},
                       {"cdi.enabled": False, "cdi.nriPluginEnabled": True},
                       {"toolkit.enabled": False, "cdi.nriPluginEnabled": True},
                       {"devicePlugin.config.create": True, "devicePlugin.config.name": "x"},
                       {"devicePlugin.config.create": True, "devicePlugin.config.data.x": "y"}):
            with self.subTest(values), self.assertRaises(support.HelmError):
                support.render(values=values)

    def test_40_switches_of_the_sandbox_plugins(self):
        """clusterpolicy-api.md #40"""
        spec = support.policy(values={"kataSandboxDevicePlugin.enabled": False, "sandboxDevicePlugin.enabled": False})
        self.assertIs(spec["kataSandboxDevicePlugin"]["enabled"], False)
        self.assertNotIn("enabled", spec["sandboxDevicePlugin"])


class Images(unittest.TestCase):
    def test_nvidia_source_leaves_no_image_of_ours_in_the_policy(self):
        for path, block in walk(support.policy(values={"images.source": "nvidia"})):
            self.assertNotIn("pitcrew", block.get("repository", "") + block["image"], path)

    def test_pitcrew_source_uses_ours_wherever_our_image_has_the_programs(self):
        """And values.yaml says so, in the very words: what `helm show values` prints is what runs."""
        values = support.values()
        blocks = dict(walk(support.policy()))
        for path, entry in NVIDIA_IMAGES.items():
            wanted = OURS if set(entry["programs"]) <= PROGRAMS else reference(entry)
            self.assertEqual(reference(blocks[path]), wanted, path)
            stated = functools.reduce(lambda node, name: node[name], path.split("."), values)
            self.assertEqual(reference({"version": "v26.7.0", **stated}), wanted, f"values.yaml, {path}")

    def test_what_is_started_only_with_a_setting(self):
        for setting, value in (("sandboxWorkloads.enabled", True), ("devicePlugin.config.name", "sharing"),
                               ("dcgm.enabled", True)):
            blocks = dict(walk(support.policy(values={setting: value})))
            concerned = [path for path, entry in NVIDIA_IMAGES.items() if setting in entry.get("when", {})]
            self.assertTrue(concerned)
            for path in concerned:
                entry = NVIDIA_IMAGES[path]
                wanted = OURS if {*entry["programs"], *entry["when"][setting]} <= PROGRAMS else reference(entry)
                self.assertEqual(reference(blocks[path]), wanted, f"{path} with {setting}")

    def test_a_registry_for_our_image_is_none_for_nvidias(self):
        """What `make push` writes names a registry for Pitcrew's image; that one has none of NVIDIA's."""
        values = {"dcgm.enabled": True, "dcgmExporter.repository": "registry.example/team",
                  "devicePlugin.repository": "registry.example/team"}
        blocks = dict(walk(support.policy(values=values)))
        self.assertEqual(reference(blocks["dcgmExporter"]), reference(NVIDIA_IMAGES["dcgmExporter"]))
        self.assertEqual(reference(blocks["devicePlugin"]), ("registry.example/team", *OURS[1:]))
        values["dcgmExporter.image"] = "dcgm-exporter"
        values["dcgmExporter.version"] = NVIDIA_IMAGES["dcgmExporter"]["version"]
        blocks = dict(walk(support.policy(values=values)))
        self.assertEqual(blocks["dcgmExporter"]["repository"], "registry.example/team")

    def test_local_cluster_switches_off_only_what_it_cannot_pull(self):
        """cluster/values.yaml is the chart's defaults with the simulated driver's image, and without the operands
        whose image is NVIDIA's: there is no registry."""
        overrides = yaml.safe_load((support.ROOT / "cluster/values.yaml").read_text(encoding="utf-8"))
        self.assertEqual(set(overrides.pop("driver")), {"repository", "image", "version"})
        defaults = support.policy()
        foreign = {path for path, block in walk(defaults) if block.get("repository") != OURS[0]}
        for name, override in overrides.items():
            self.assertEqual(override, {"enabled": False}, name)
            self.assertIn(name, foreign, f"{name} has Pitcrew's image by default: why is it off?")
            self.assertIs(defaults[name]["enabled"], True, name)

    def test_what_is_set_wins_over_the_source(self):
        for path, image in NVIDIA_IMAGES.items():
            spec = support.policy(values={"images.source": "nvidia", f"{path}.repository": "mirror.example"})
            block = dict(walk(spec))[path]
            self.assertEqual((block["repository"], block["image"]), ("mirror.example", image["image"]), path)

    def test_digests_join_with_an_at_sign(self):
        """clusterpolicy-api.md section 9: upstream's chart joins them with a colon."""
        digest = "sha256:" + 64 * "0"
        objects = support.render(values={"operator.version": digest, "validator.version": digest,
                                         "driver.manager.version": digest})
        container = objects["Deployment/gpu-operator"]["spec"]["template"]["spec"]["containers"][0]
        env = {item["name"]: item.get("value") for item in container["env"]}
        reference = f"docker.io/pitcrew/pitcrew@{digest}"
        self.assertEqual((container["image"], env["VALIDATOR_IMAGE"], env["DRIVER_MANAGER_IMAGE"]), 3 * (reference,))

    def test_whole_references(self):
        reference = "mirror.example/pitcrew@sha256:" + 64 * "0"
        for path in NVIDIA_IMAGES:
            spec = support.policy(values={f"{path}.repository": "", f"{path}.version": "", f"{path}.image": reference})
            block = dict(walk(spec))[path]
            self.assertEqual({key: value for key, value in block.items() if key in ("repository", "image", "version")},
                             {"image": reference}, path)


class Pods(unittest.TestCase):
    def setUp(self):
        self.objects = support.render(values={"dashboard.enabled": True})

    def pods(self):
        for name, item in self.objects.items():
            if item["kind"] in ("Deployment", "DaemonSet", "Job"):
                yield name, item["spec"]["template"]["spec"]

    def test_no_pod_of_the_chart_runs_as_root(self):
        for name, pod in self.pods():
            for container in pod["containers"]:
                context = {**pod.get("securityContext", {}), **container["securityContext"]}
                self.assertGreater(context["runAsUser"], 0, name)
                self.assertIs(context["runAsNonRoot"], True, name)
                self.assertIs(context["readOnlyRootFilesystem"], True, name)
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]}, name)

    def test_operator_command_line(self):
        """operator-behaviour.md section 1.1."""
        container = self.objects["Deployment/gpu-operator"]["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["command"], ["gpu-operator"])
        self.assertEqual(container["args"], ["--leader-elect", "--zap-time-encoding=epoch", "--zap-log-level=info"])

    def test_operator_survives_a_drain_for_a_driver_upgrade(self):
        """operator-behaviour.md section 17."""
        deployment = self.objects["Deployment/gpu-operator"]
        for labels in (deployment["metadata"]["labels"], deployment["spec"]["template"]["metadata"]["labels"]):
            self.assertEqual(labels["nvidia.com/gpu-driver-upgrade-drain.skip"], "true")

    def test_worker_reads_the_node_where_upstreams_does(self):
        """node-feature-discovery.md section 5.6."""
        pod = self.objects["DaemonSet/gpu-operator-node-feature-discovery-worker"]["spec"]["template"]["spec"]
        paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pod["volumes"]}
        mounts = {paths[mount["name"]]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]
                  if paths[mount["name"]]}
        features = "/etc/kubernetes/node-feature-discovery/features.d/"
        self.assertEqual(mounts, {
            "/boot": "/host-boot", "/etc/os-release": "/host-etc/os-release", "/sys": "/host-sys",
            "/usr/lib": "/host-usr/lib", "/lib": "/host-lib", "/proc/swaps": "/host-proc/swaps", features: features})
        self.assertTrue(all(mount["readOnly"] for mount in pod["containers"][0]["volumeMounts"]))
        env = {item["name"]: item["valueFrom"]["fieldRef"]["fieldPath"] for item in pod["containers"][0]["env"]}
        self.assertEqual(env, {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid"})

    def test_worker_configuration(self):
        """node-feature-discovery.md section 2.1."""
        config = yaml.safe_load(self.objects["ConfigMap/gpu-operator-node-feature-discovery-worker-conf"]["data"][
            "nfd-worker.conf"])
        self.assertEqual(config, {"sources": {"pci": {
            "deviceClassWhitelist": ["02", "0200", "0207", "0300", "0302"], "deviceLabelFields": ["vendor"]}}})

    def test_pods_restart_for_their_configuration_only(self):
        name = "DaemonSet/gpu-operator-node-feature-discovery-worker"

        def checksum(values):
            return support.render(values=values)[name]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

        self.assertEqual(checksum({}), checksum({"toolkit.enabled": False}))
        self.assertNotEqual(checksum({}),
                            checksum({"node-feature-discovery.worker.config.core.sleepInterval": "10s"}))


# What the operator asks of the API server, beside what it grants to its operands. A call that the code makes anew has
# to be added here, with the reason, and in the chart; what the code no longer does has to go.
_OBJECTS = {"create", "get", "list", "watch", "patch", "delete"}  # applied, watched, removed
_WATCHED = {"get", "list", "watch"}
USED = {
    "ClusterRole": {
        ("nvidia.com", "clusterpolicies"): _WATCHED | {"delete"},  # deleted by `pitcrew uninstall`
        ("nvidia.com", "clusterpolicies/status"): {"patch"},
        ("nvidia.com", "nvidiadrivers"): _WATCHED | {"delete"},  # likewise, with --all
        ("nvidia.com", "nvidiadrivers/status"): {"patch"},
        ("nvidia.com", "gpuclusters"): _WATCHED,
        ("", "nodes"): _WATCHED | {"patch"},
        ("", "events"): {"create", "patch"} | _WATCHED,  # read by `pitcrew doctor` in the operator's pod
        ("", "pods"): _WATCHED,  # likewise; those of nodes whose driver is upgraded
        ("", "pods/eviction"): {"create"},  # before a driver is upgraded
        ("resource.k8s.io", "resourceclaims"): {"get"},  # likewise: which pods hold GPUs
        ("rbac.authorization.k8s.io", "clusterroles"): _OBJECTS,
        ("rbac.authorization.k8s.io", "clusterrolebindings"): _OBJECTS,
        ("node.k8s.io", "runtimeclasses"): _OBJECTS,
        ("security.openshift.io", "securitycontextconstraints"): _OBJECTS | {"use"},
        ("config.openshift.io", "clusterversions"): _WATCHED,
        ("config.openshift.io", "proxies"): _WATCHED,
        ("image.openshift.io", "imagestreams"): _WATCHED,
        # operator.upgradeCRD
        ("apiextensions.k8s.io", "customresourcedefinitions"): _WATCHED | {"create", "patch"},
    },
    "Role": {
        ("rbac.authorization.k8s.io", "roles"): _OBJECTS,
        ("rbac.authorization.k8s.io", "rolebindings"): _OBJECTS,
        ("apps", "daemonsets"): _OBJECTS,
        ("apps", "controllerrevisions"): _WATCHED,  # which driver pods are of a former version
        ("", "services"): _OBJECTS,
        ("", "serviceaccounts"): _OBJECTS,
        ("", "configmaps"): _OBJECTS,
        ("monitoring.coreos.com", "servicemonitors"): _OBJECTS,
        ("monitoring.coreos.com", "prometheusrules"): _OBJECTS,
        ("", "namespaces"): {"get", "patch"},
        ("", "secrets"): _WATCHED,
        ("", "pods"): _WATCHED | {"delete"},  # a driver pod, which then comes back with the new driver
        ("coordination.k8s.io", "leases"): {"create", "get", "update"},
    },
}
# And with sandboxWorkloads.kubevirt.manage. `pitcrew uninstall` gets what it restores.
USED_FOR_KUBEVIRT = {
    ("kubevirt.io", "kubevirts"): _WATCHED | {"patch"},
    ("hco.kubevirt.io", "hyperconvergeds"): _WATCHED | {"patch"},
    ("kubevirt.io", "virtualmachines"): _WATCHED,
    ("kubevirt.io", "virtualmachineinstances"): _WATCHED,
}
# Granted by a Role, and held by the ClusterRole.
HELD_CLUSTER_WIDE = {("security.openshift.io", "securitycontextconstraints")}


def rights(rules):
    """{(group, resource): verbs} of a role's rules."""
    found = {}
    for rule in rules:
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}, rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


class Dashboards(unittest.TestCase):
    def test_each_is_a_config_map_that_the_sidecar_finds(self):
        values = {"monitoring.dashboards.enabled": True, "monitoring.dashboards.annotations.grafana_folder": "GPUs"}
        names = {path.stem for path in (support.CHART / "files/monitoring/dashboards").glob("*.json")}
        rendered = support.render(values=values)
        self.assertEqual(set(rendered) - set(support.render()), {f"ConfigMap/gpu-operator-dashboard-{name}" for name in names})
        titles = set()
        for name in names:
            body = rendered[f"ConfigMap/gpu-operator-dashboard-{name}"]
            self.assertEqual(body["metadata"]["labels"]["grafana_dashboard"], "1")
            self.assertEqual(body["metadata"]["annotations"], {"grafana_folder": "GPUs"})
            (file, text), = body["data"].items()
            self.assertEqual(file, f"gpu-operator-{name}.json")
            dashboard = json.loads(text)
            titles.add(dashboard["uid"])
            self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
            for panel in dashboard["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
        self.assertEqual(len(titles), len(names))


class Rights(unittest.TestCase):
    maxDiff = None

    def granted(self, kind):
        """What the operands' roles of this kind hold: Kubernetes lets nobody grant what he has not."""
        rules = []
        for path in sorted((support.ROOT / "src/desired/manifests").glob("*/*.yaml")):
            for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                # Of the Kata manager objects of older releases are removed only.
                if body and body["kind"] == kind and path.parent.name != "state-kata-manager":
                    rules += body["rules"]
        self.assertTrue(rules)
        return rights(rules)

    def test_operator_may_do_what_it_does_and_nothing_else(self):
        objects = support.render()
        for kind, used in USED.items():
            expected = {what: set(verbs) for what, verbs in used.items()}
            for what, verbs in self.granted(kind).items():
                if kind == "ClusterRole" or what not in HELD_CLUSTER_WIDE:
                    expected.setdefault(what, set()).update(verbs)
            self.assertEqual(rights(objects[f"{kind}/gpu-operator"]["rules"]), expected, kind)

    def test_of_leases_only_its_own_is_read_and_written(self):
        header = (support.ROOT / "src/api/labels.h").read_text(encoding="utf-8")
        own = re.search(r'kOperatorLease = "([^"]+)"', header)[1]
        rules = [rule for rule in support.render()["Role/gpu-operator"]["rules"] if "leases" in rule["resources"]]
        self.assertEqual(rights(rule for rule in rules if rule.get("resourceNames") != [own]),
                         {("coordination.k8s.io", "leases"): {"create"}})

    def test_rights_for_kubevirt_come_with_the_value(self):
        key = "ClusterRole/gpu-operator"
        before = rights(support.render()[key]["rules"])
        after = rights(support.render(values={"sandboxWorkloads.kubevirt.manage": True})[key]["rules"])
        self.assertEqual({what: verbs for what, verbs in after.items() if before.get(what) != verbs},
                         USED_FOR_KUBEVIRT)


if __name__ == "__main__":
    unittest.main()
