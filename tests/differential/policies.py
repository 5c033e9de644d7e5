"""Random valid ClusterPolicies from the CRD's schema, seeded: the same seed gives the same policies.

The schema says what is valid; HINTS adds what a schema cannot say (an image needs repository, image and
version together, a quantity has a form, a ConfigMap has to exist). Paths are written with dots and []
for list items, and a hint's path may begin with "*." to mean any component.
"""

import random

# ConfigMaps and Secrets of every cluster, with their keys, so that a policy may refer to them.
CONFIG_MAPS = {"repo-config": ["a.list", "b.list"], "cert-config": ["ca.pem"], "plugin-config": ["a", "b"],
               "module-config": ["nvidia.conf", "nvidia-uvm.conf"],
               "licensing": ["gridd.conf", "client_configuration_token.tok"], "topology": ["nvidia-topologyd.conf"]}
SECRETS = {"driver-secret": ["KEY"], "licensing-secret": ["gridd.conf", "client_configuration_token.tok"]}

# Requests are below limits, as the server demands.
QUANTITIES = {"requests": {"cpu": ["100m", "0.5"], "memory": ["64Mi", "128974848"]},
              "limits": {"cpu": ["1", "2500m"], "memory": ["1Gi", "512M"]}}


def env_list(rng):
    names = ["MY_VARIABLE", "HTTP_PROXY", "NVIDIA_VISIBLE_DEVICES", "WITH_WAIT", "DEVICE_LIST_STRATEGY",
             "PASS_DEVICE_SPECS", "CONTAINERD_CONFIG", "GFD_SLEEP_INTERVAL", "RUNTIME_CONFIG_SOURCE",
             "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "DCGM_EXPORTER_CONFIGMAP_DATA", "MIG_STRATEGY",
             "DEFAULT_GPU_WORKLOAD_CONFIG", "CONFIG_FILE", "CDI_ENABLED"]
    chosen = rng.sample(names, rng.randint(1, 3))
    return [{"name": name, "value": rng.choice(["", "true", "/etc/x/y.toml", "a b"])} for name in chosen]


def resources(rng):
    kinds = rng.choice([["limits"], ["requests"], ["limits", "requests"]])
    return {kind: {name: rng.choice(QUANTITIES[kind][name])
                   for name in rng.sample(["cpu", "memory"], rng.randint(1, 2))} for kind in kinds}


def tolerations(rng):
    return rng.choice([
        [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        [{"operator": "Exists"}],
        [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 30}],
    ])


def labels(rng):
    keys = ["app", "app.kubernetes.io/part-of", "team", "example.com/tier"]
    return {key: rng.choice(["a", "b"]) for key in rng.sample(keys, rng.randint(1, 3))}


def service_monitor(rng):
    choices = {"enabled": [True, False], "interval": ["15s", "1m"], "scrapeTimeout": ["5s"],
               "honorLabels": [True, False], "additionalLabels": [{"release": "prometheus"}, {"app": "own"}],
               "relabelings": [[], [{"action": "replace", "sourceLabels": ["__meta_kubernetes_pod_node_name"],
                                     "targetLabel": "node"}]]}
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}


def sandbox_workloads(rng):
    result = {"enabled": rng.random() < 0.6}
    if rng.random() < 0.5:
        result["mode"] = rng.choice(["kubevirt", "kata"])
    if rng.random() < 0.5:
        result["defaultWorkload"] = rng.choice(["container", "vm-passthrough", "vm-vgpu"])
    return result


# Path of a field -> a function of the generator that gives its value; None leaves the field out.
HINTS = {
    "*.env": env_list,
    "*.env[]": None,
    "*.resources": resources,
    "*.imagePullSecrets": lambda rng: rng.sample(["pull-a", "pull-b", "pull-c"], rng.randint(1, 2)),
    "*.args": lambda rng: rng.choice([["--verbose"], ["init", "--debug"]]),
    "daemonsets.tolerations": tolerations,
    "daemonsets.labels": labels,
    "daemonsets.annotations": labels,
    "daemonsets.priorityClassName": lambda rng: rng.choice(["", "high", "system-cluster-critical"]),
    "daemonsets.rollingUpdate": lambda rng: {"maxUnavailable": rng.choice(["1", "3", "25%"])},
    "daemonsets.podSecurityContext": lambda rng: rng.choice([{"runAsUser": 1000}, {"fsGroup": 5}]),
    "operator.runtimeClass": lambda rng: rng.choice(["nvidia", "gpu-runtime"]),
    "operator.defaultRuntime": lambda rng: rng.choice(["containerd", "crio", "docker"]),
    "operator.labels": labels,
    "operator.annotations": labels,
    "operator.metrics": lambda rng: {"serviceMonitor": service_monitor(rng)},
    "sandboxWorkloads": sandbox_workloads,
    "driver.startupProbe.successThreshold": lambda rng: 1,
    "hostPaths.rootFS": lambda rng: rng.choice(["/", "/host/root", ""]),
    "hostPaths.driverInstallDir": lambda rng: rng.choice(["/run/nvidia/driver", "/home/kubernetes/bin/nvidia"]),
    "toolkit.installDir": lambda rng: rng.choice(["/usr/local/nvidia", "/opt/nvidia"]),
    "driver.repoConfig": lambda rng: {"configMapName": "repo-config"},
    "driver.certConfig": lambda rng: {"name": "cert-config"},
    "driver.kernelModuleConfig": lambda rng: {"name": "module-config"},
    "driver.secretEnv": lambda rng: "driver-secret",
    "driver.virtualTopology": lambda rng: {"config": "topology"},
    "driver.licensingConfig": lambda rng: rng.choice([
        {"configMapName": "licensing", "nlsEnabled": rng.random() < 0.5},
        {"secretName": "licensing-secret", "nlsEnabled": rng.random() < 0.5}]),
    # Any member of these crashes every reconcile of upstream's operator, for ever.
    "driver.livenessProbe": None,
    "driver.readinessProbe": None,
    "driver.useNvidiaDriverCRD": None,
    "driver.upgradePolicy": None,
    "devicePlugin.config": lambda rng: {"name": "plugin-config", "default": rng.choice(["", "a"])},
    "migManager.config": lambda rng: {"name": rng.choice(["", "own-mig", "default-mig-parted-config"])},
    "migManager.gpuClientsConfig": lambda rng: {"name": rng.choice(["", "own-clients", "default-gpu-clients"])},
    "vgpuDeviceManager.config": lambda rng: {"name": rng.choice(["", "own-vgpu", "default-vgpu-devices-config"]),
                                             "default": rng.choice(["", "default", "A10-4Q"])},
    "vgpuManager.kernelModuleConfig": lambda rng: {"name": "module-config"},
    "dcgmExporter.annotations": labels,
    "dcgmExporter.config": lambda rng: {"name": rng.choice(["", "own-metrics"])},
    "dcgmExporter.podLabelAllowlistRegex": lambda rng: ["^app$", "^team$"],
    "dcgmExporter.service": lambda rng: {"type": rng.choice(["ClusterIP", "NodePort"]),
                                         "internalTrafficPolicy": rng.choice(["Cluster", "Local"])},
    "dcgmExporter.serviceMonitor": service_monitor,
    "dcgmExporter.hpcJobMapping": lambda rng: {"enabled": rng.random() < 0.7,
                                               "directory": rng.choice(["", "/var/jobs"])},
    "hostPaths.kubeletRootDir": lambda rng: rng.choice(["/var/lib/kubelet", "/data/kubelet"]),
    "kataManager": None,
    "mps.root": lambda rng: rng.choice(["/run/nvidia/mps", "/var/run/mps"]),
    "psp": None,
}


class Generator:
    def __init__(self, schema, seed, disabled=(), density=0.25):
        """`schema` is the openAPIV3Schema of spec; `disabled` names components that stay off."""
        self.schema, self.disabled, self.density = schema, disabled, density
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
        if spec.get("daemonsets", {}).get("updateStrategy") == "OnDelete":
            spec["daemonsets"].pop("rollingUpdate", None)

    def hint(self, path):
        name = path.rsplit(".", 1)[-1]
        for key in (path, "*." + name):
            if key in HINTS:
                return True, HINTS[key]
        return False, None

    def member(self, path, schema, required=False):
        often = 0.75 if "." not in path else 0.6 if path.endswith(".enabled") else self.density
        if not required and self.rng.random() > often:
            return None
        hinted, make = self.hint(path)
        if hinted:
            return make(self.rng) if make else None
        return self.value(path, schema)

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
