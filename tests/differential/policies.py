"""Random valid ClusterPolicies from the CRD's schema, seeded: the same seed gives the same policies.

The schema says what is valid; HINTS adds what a schema cannot say (an image needs repository, image and
version together, a quantity has a form, a ConfigMap has to exist). Paths are written with dots, and a hint's
path may begin with "*." to mean any component.
"""

import random

# ConfigMaps and Secrets of every cluster, with their keys, so that a policy may refer to them.
CONFIG_MAPS = {"repo-config": ["a.list", "b.list"], "cert-config": ["ca.pem"], "plugin-config": ["a", "b"],
               "module-config": ["nvidia.conf", "nvidia-uvm.conf"],
               "licensing": ["gridd.conf", "client_configuration_token.tok"], "topology": ["nvidia-topologyd.conf"]}
SECRETS = {"driver-secret": ["KEY"], "licensing-secret": ["gridd.conf", "client_configuration_token.tok"]}

# Requests are below limits, as the server demands.
QUANTITIES = {"requests": {"cpu": ["100m", "0.5"], "memory": ["64Mi", "128974848", 1000000]},
              "limits": {"cpu": ["1", "2500m", 2], "memory": ["1Gi", "512M", "1e9"]}}


# Variables that mean something to an operand, beside one that does not. The names that upstream's manifests
# fill from a field are not here: upstream sends them both ways, and the server refuses that.
VARIABLES = {
    "toolkit": ["CONTAINERD_CONFIG", "CONTAINERD_SOCKET", "CRIO_CONFIG", "DOCKER_CONFIG", "DOCKER_SOCKET",
                "RUNTIME_CONFIG", "RUNTIME_DROP_IN_CONFIG", "RUNTIME_CONFIG_SOURCE", "NRI_SOCKET", "ROOT",
                "CDI_ENABLED", "CRIO_CONFIG_MODE"],
    "devicePlugin": ["DEVICE_LIST_STRATEGY", "PASS_DEVICE_SPECS", "MPS_ROOT", "NVIDIA_MIG_MONITOR_DEVICES",
                     "CONFIG_FILE", "NVIDIA_CDI_HOOK_PATH"],
    "gfd": ["GFD_SLEEP_INTERVAL", "MIG_STRATEGY", "NVIDIA_MIG_MONITOR_DEVICES", "USE_NODE_FEATURE_API"],
    "dcgmExporter": ["DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID",
                     "DCGM_EXPORTER_CONFIGMAP_DATA", "DCGM_EXPORTER_COLLECTORS", "DCGM_HPC_JOB_MAPPING_DIR"],
    "migManager": ["CONFIG_FILE", "DEFAULT_CONFIG_FILE", "CDI_ENABLED", "GPU_CLIENTS_FILE"],
    "driver": ["KERNEL_MODULE_TYPE", "GPU_DIRECT_RDMA_ENABLED", "USE_HOST_MOFED", "HTTPS_PROXY", "no_proxy",
               "ENABLE_AUTO_DRAIN", "DRIVER_CONFIG_DIGEST", "OPENSHIFT_VERSION"],
    "validator": ["WITH_WAIT", "COMPONENT", "MIG_STRATEGY", "VALIDATOR_IMAGE", "DEFAULT_GPU_WORKLOAD_CONFIG",
                  "DRIVER_INSTALL_DIR"],
    "vgpuDeviceManager": ["DEFAULT_VGPU_CONFIG", "CONFIG_FILE"],
    "vfioManager": ["ENABLE_GPU_POD_EVICTION"],
    "ccManager": ["DEFAULT_CC_MODE"],
}


def env_list(rng, path):
    names = VARIABLES.get(path.split(".")[0], []) + ["MY_VARIABLE", "HTTP_PROXY", "NVIDIA_VISIBLE_DEVICES"]
    if path == "driver.env":
        # Upstream adds the variables of OpenShift's proxy to those of the policy without looking for the same name.
        names = [name for name in names if not name.lower().endswith("_proxy")]
    chosen = rng.sample(names, rng.randint(0, 3))
    if chosen and rng.random() < 0.1:
        chosen.append(chosen[0])
    values = ["", "true", "True", "none", "/etc/x/y.toml", "/etc/x/", "/", "a b", "file=/etc/x/y.toml,command"]
    return [{"name": name} if rng.random() < 0.1 else {"name": name, "value": rng.choice(values)} for name in chosen]


def resources(rng):
    kinds = rng.choice([[], ["limits"], ["requests"], ["limits", "requests"]])
    return {kind: {name: rng.choice(QUANTITIES[kind][name])
                   for name in rng.sample(["cpu", "memory"], rng.randint(0, 2))} for kind in kinds}


def tolerations(rng):
    return rng.choice([
        [],
        [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        [{"operator": "Exists"}],
        [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 30},
         {"key": "spot", "operator": "Equal", "value": ""}],
    ])


def labels(rng):
    keys = ["app", "app.kubernetes.io/part-of", "team", "example.com/tier", "nvidia.com/own"]
    return {key: rng.choice(["", "a", "b"]) for key in rng.sample(keys, rng.randint(0, 3))}


def annotations(rng):
    return labels(rng) | rng.choice([{}, {"example.com/text": "a: [b]\n"},
                                     {"kubectl.kubernetes.io/default-container": "x"}])


def pod_security_context(rng):
    choices = {"runAsUser": [0, 1000], "runAsGroup": [0, 7], "runAsNonRoot": [True, False], "fsGroup": [0, 5],
               "fsGroupChangePolicy": ["Always", "OnRootMismatch"], "supplementalGroups": [[], [1, 2]],
               "supplementalGroupsPolicy": ["Merge", "Strict"],
               "sysctls": [[], [{"name": "kernel.shm_rmid_forced", "value": "1"}]],
               "seLinuxOptions": [{"level": "s0"}, {"user": "u", "role": "r", "type": "t"}],
               "seLinuxChangePolicy": ["Recursive"],
               "seccompProfile": [{"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "x.json"}],
               "appArmorProfile": [{"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "x"}]}
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.25}


def relabelings(rng):
    return rng.choice([
        [],
        [{}],
        [{"action": "replace", "sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}],
        [{"action": "hashmod", "modulus": 4, "regex": "(.*)", "replacement": "$1", "separator": ";",
          "sourceLabels": ["a", "b"], "targetLabel": "shard"}, {"action": "drop", "regex": "x"}]])


def service_monitor(rng):
    choices = {"enabled": [True, False], "interval": ["15s", "1m", "0", ""], "scrapeTimeout": ["5s", ""],
               "honorLabels": [True, False], "additionalLabels": [{}, {"release": "prometheus"}, {"app": "own"}]}
    result = {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}
    return result | ({"relabelings": relabelings(rng)} if rng.random() < 0.5 else {})


def sandbox_workloads(rng):
    result = {"enabled": rng.random() < 0.6}
    if rng.random() < 0.5:
        result["mode"] = rng.choice(["kubevirt", "kata"])
    if rng.random() < 0.5:
        result["defaultWorkload"] = rng.choice(["container", "vm-passthrough", "vm-vgpu"])
    return result


def some(*values):
    """A hint that takes one of these."""
    return lambda rng: rng.choice(values)


def licensing(rng):
    result = rng.choice([{}, {"configMapName": "licensing"}, {"secretName": "licensing-secret"},
                         {"configMapName": "licensing", "secretName": "licensing-secret"}, {"secretName": ""}])
    return result | rng.choice([{}, {"nlsEnabled": True}, {"nlsEnabled": False}])


# What no policy has, and why.
EXCLUDED = {
    "driver.livenessProbe": "any member of it crashes every reconcile of upstream's operator, for ever",
    "driver.readinessProbe": "the same",
    "driver.upgradePolicy.schedule": "upstream's definition does not have it",
    "validator.qualification": "the same",
    "daemonsets.podSecurityContext.windowsOptions": "the server refuses it for pods of Linux",
}

# Path of a field -> a function of the generator that gives its value.
HINTS = {
    "*.resources": resources,
    "*.imagePullPolicy": some("Always", "Never", "IfNotPresent", "", "sometimes"),
    "*.imagePullSecrets": lambda rng: rng.choice([[], ["pull-a", "pull-a"],
                                                  rng.sample(["pull-a", "pull-b", "pull-c"], 2)]),
    "*.args": some([], ["--verbose"], ["init", "--debug"]),
    "daemonsets.tolerations": tolerations,
    "daemonsets.labels": labels,
    "daemonsets.annotations": annotations,
    "daemonsets.priorityClassName": some("", "high", "system-cluster-critical"),
    "daemonsets.rollingUpdate": some({}, {"maxUnavailable": ""}, {"maxUnavailable": "1"}, {"maxUnavailable": "3"},
                                     {"maxUnavailable": "25%"}),
    "daemonsets.podSecurityContext": pod_security_context,
    "operator.runtimeClass": some("", "nvidia", "gpu-runtime"),
    "operator.defaultRuntime": some("containerd", "crio", "docker"),
    "operator.labels": labels,
    "operator.annotations": labels,
    "operator.metrics.serviceMonitor": service_monitor,
    "sandboxWorkloads": sandbox_workloads,
    "driver.startupProbe.successThreshold": some(1),
    "hostPaths.rootFS": some("/", "/host/root", "/host/root/", ""),
    "hostPaths.driverInstallDir": some("/run/nvidia/driver", "/home/kubernetes/bin/nvidia", ""),
    "hostPaths.kubeletRootDir": some("/var/lib/kubelet", "/data/kubelet", "/data/x/../kubelet/", ""),
    "toolkit.installDir": some("/usr/local/nvidia", "/opt/nvidia", "/opt//nvidia/", ""),
    "driver.repoConfig": some({}, {"configMapName": ""}, {"configMapName": "repo-config"}),
    "driver.certConfig": some({}, {"name": ""}, {"name": "cert-config"}),
    "driver.kernelModuleConfig": some({}, {"name": ""}, {"name": "module-config"}),
    "driver.secretEnv": some("", "driver-secret"),
    "driver.virtualTopology": some({}, {"config": ""}, {"config": "topology"}),
    "driver.licensingConfig": licensing,
    "driver.useNvidiaDriverCRD": lambda rng: rng.random() < 0.4,
    "devicePlugin.config": some({}, {"name": ""}, {"name": "plugin-config"}, {"name": "plugin-config", "default": ""},
                                {"name": "plugin-config", "default": "a"}, {"default": "a"}),
    "devicePlugin.mps.root": some("/run/nvidia/mps", "/var/run/mps", "/var/run/mps/", ""),
    "migManager.config.name": some("", "own-mig", "default-mig-parted-config"),
    "migManager.gpuClientsConfig": some({}, {"name": ""}, {"name": "own-clients"}, {"name": "default-gpu-clients"}),
    "vgpuDeviceManager.config.name": some("", "own-vgpu", "default-vgpu-devices-config"),
    "vgpuDeviceManager.config.default": some("", "default", "A10-4Q"),
    "vgpuManager.kernelModuleConfig": some({}, {"name": ""}, {"name": "module-config"}),
    "dcgmExporter.annotations": annotations,
    "dcgmExporter.config": some({}, {"name": ""}, {"name": "own-metrics"}),
    "dcgmExporter.podLabelAllowlistRegex": some([], ["^app$"], ["^app$", "^team$"]),
    "dcgmExporter.service": some({}, {"type": ""}, {"type": "ClusterIP"}, {"type": "NodePort"},
                                 {"internalTrafficPolicy": "Local"},
                                 {"type": "NodePort", "internalTrafficPolicy": "Cluster"}),
    "dcgmExporter.serviceMonitor": service_monitor,
    "dcgmExporter.hpcJobMapping.directory": some("", "/var/jobs"),
    "kataManager.config.runtimeClasses": some([], [{
        "name": "kata-x", "nodeSelector": {"a": "b"},
        "artifacts": {"url": "registry.example.com/x", "pullSecret": "s"}}]),
    "kataManager.config.artifactsDir": some("", "/opt/artifacts"),
}


def mistake(spec, rng):
    """Puts into a policy what the schema allows and no operator can do; in words, what it is."""
    components = ["toolkit", "devicePlugin", "dcgm", "dcgmExporter", "gfd", "migManager", "validator",
                  "nodeStatusExporter", "vfioManager", "sandboxDevicePlugin"]
    if not spec["driver"].get("usePrecompiled"):
        components.append("driver")
    kind = rng.choice(["image", "maxUnavailable", "reference", "precompiled"])
    if kind == "image":
        component = spec.setdefault(rng.choice(components), {})
        component.update({"repository": "", "image": "tool", "version": ""})
        missing = rng.choice(["repository", "version"])
        component[missing] = "only"
        if rng.random() < 0.3:
            del component["image"]
    elif kind == "maxUnavailable":
        spec["daemonsets"].pop("updateStrategy", None)
        spec["daemonsets"]["rollingUpdate"] = {"maxUnavailable": rng.choice(["10%abc", "many", "1.5", "-1x"])}
    elif kind == "reference":
        spec["driver"].update(rng.choice([
            {"repoConfig": {"configMapName": "nowhere"}}, {"certConfig": {"name": "nowhere"}},
            {"kernelModuleConfig": {"name": "nowhere"}}, {"secretEnv": "nowhere"}]))
    else:
        spec["driver"].update({"usePrecompiled": True, "repository": "registry.example.com/team", "image": "tool",
                               "version": "v1.2.3"})
        spec.setdefault(rng.choice(["gds", "gdrcopy"]), {})["enabled"] = True
    return kind


class Generator:
    def __init__(self, schema, seed, disabled=(), density=0.25, mistakes=0):
        """`schema` is the openAPIV3Schema of spec; `disabled` names components that stay off; `density` is how
        often an optional field is set, `mistakes` how often a policy cannot be carried out as a whole."""
        self.schema, self.disabled, self.density, self.mistakes = schema, disabled, density, mistakes
        self.rng = random.Random(seed)

    def policy(self, name="cluster-policy"):
        spec = {}
        for member, schema in self.schema["properties"].items():
            value = self.member(member, schema, required=member in self.schema.get("required", []))
            if value is not None:
                spec[member] = value
        for component in self.disabled:
            spec.setdefault(component, {})["enabled"] = False
        self.mend(spec)
        if self.rng.random() < self.mistakes:
            mistake(spec, self.rng)
        return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": name},
                "spec": spec}

    def mend(self, spec):
        """Takes away what the schema allows and upstream refuses as a whole."""
        driver = spec.get("driver", {})
        if driver.get("usePrecompiled"):
            for extra in ("gds", "gdrcopy"):
                spec.get(extra, {}).pop("enabled", None)
            driver.update(self.image(parts=True))
        cdi = spec.get("cdi", {})
        if cdi.get("enabled") is False or spec.get("toolkit", {}).get("enabled") is False:
            cdi.pop("nriPluginEnabled", None)

    def member(self, path, schema, required=False):
        often = 0.75 if "." not in path else 0.6 if path.endswith(".enabled") else self.density
        if path in EXCLUDED or not required and self.rng.random() > often:
            return None
        name = path.rsplit(".", 1)[-1]
        if name == "env":
            return env_list(self.rng, path)
        make = HINTS.get(path, HINTS.get("*." + name))
        return make(self.rng) if make else self.value(path, schema)

    def value(self, path, schema):
        rng = self.rng
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return rng.choice(["25%", 1, 3])
        kind = schema.get("type")
        if kind == "boolean":
            return rng.random() < 0.5
        if kind in ("integer", "number"):
            return rng.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 60)))
        if kind == "string":
            return self.text(path, schema)
        if kind == "array":
            return None
        if kind == "object":
            return self.object(path, schema)
        return None

    def text(self, path, schema):
        name = path.rsplit(".", 1)[-1].lower()
        if "pattern" in schema:
            return schema.get("default")
        if "time" in name or "interval" in name:
            return "30s"
        return self.rng.choice(["", "alpha", "beta"])

    def object(self, path, schema):
        properties = schema.get("properties", {})
        images = {"repository", "image", "version"} <= set(properties)
        result = {}
        for name, member in properties.items():
            if images and name in ("repository", "image", "version"):
                continue
            value = self.member(f"{path}.{name}", member, required=name in schema.get("required", []))
            if value is not None:
                result[name] = value
        if images:
            result.update(self.image())
        return result

    def image(self, parts=False):
        """One of the three valid ways to name an image: not at all, in three parts, or in one."""
        if parts:
            return {"repository": "registry.example.com/team", "image": "tool", "version": "v1.2.3"}
        version = self.rng.choice(["v1.2.3", "sha256:" + "ab" * 32])
        return self.rng.choice([
            {},
            {"repository": "registry.example.com/team", "image": "tool", "version": version},
            {"image": "registry.example.com/team/tool:v9"},
        ])
