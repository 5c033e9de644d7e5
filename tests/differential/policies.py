"""Random valid ClusterPolicies from the CRD's schema, seeded: the same seed gives the same policies.

The schema says what is valid; HINTS adds what a schema cannot say (an image needs repository, image and
version together, a quantity has a form, a ConfigMap has to exist). Paths are written with dots and []
for list items, and a hint's path may begin with "*." to mean any component.
"""

import random

# Names that the clusters of clusters/*.yaml define, so that a policy may refer to them.
CONFIG_MAPS = ["repo-config", "cert-config", "module-config", "licensing", "topology"]
SECRETS = ["driver-secret", "licensing-secret"]

QUANTITIES = ["100m", "1", "250Mi", "1Gi"]


def env_list(rng):
    names = ["MY_VARIABLE", "HTTP_PROXY", "NVIDIA_VISIBLE_DEVICES", "WITH_WAIT", "DEVICE_LIST_STRATEGY",
             "PASS_DEVICE_SPECS", "CONTAINERD_CONFIG", "GFD_SLEEP_INTERVAL", "RUNTIME_CONFIG_SOURCE"]
    chosen = rng.sample(names, rng.randint(1, 3))
    return [{"name": name, "value": rng.choice(["", "true", "/etc/x/y.toml", "a b"])} for name in chosen]


def resources(rng):
    kinds = rng.choice([["limits"], ["requests"], ["limits", "requests"]])
    return {kind: {name: rng.choice(QUANTITIES) for name in rng.sample(["cpu", "memory"], rng.randint(1, 2))}
            for kind in kinds}


def tolerations(rng):
    return rng.choice([
        [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        [{"operator": "Exists"}],
        [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 30}],
    ])


def labels(rng):
    keys = ["app", "app.kubernetes.io/part-of", "team", "example.com/tier"]
    return {key: rng.choice(["a", "b"]) for key in rng.sample(keys, rng.randint(1, 3))}


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
    "operator.metrics": None,
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
    "migManager.config": None,
    "migManager.gpuClientsConfig": None,
    "vgpuDeviceManager.config": None,
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
        if not required and self.rng.random() > (0.75 if "." not in path else self.density):
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

    def image(self):
        """One of the three valid ways to name an image: not at all, in three parts, or in one."""
        version = self.rng.choice(["v1.2.3", "sha256:" + "ab" * 32])
        return self.rng.choice([
            {},
            {"repository": "registry.example.com/team", "image": "tool", "version": version},
            {"image": "registry.example.com/team/tool:v9"},
        ])
