"""Random nodes with random configurations of device plugin and feature discovery, seeded: the same seed gives the same.

A case is JSON: what the node is (`description`, as in simulation/README.md, `driver`, `before`: what happens to its
GPUs before anything starts), how each program is configured (`flags`, `env`, `config`), how many questions the kubelet
asks and which incidents follow. `tags` say what is special about it; a rule of accepted.yaml may be about cases with a
tag.
"""

import json
import math
import pathlib
import random

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROFILES = {file.stem: yaml.safe_load(file.read_text()) for file in (ROOT / "simulation/profiles").glob("*.yaml")}

# GPU slices and attribute of NVML's GPU instance profile index, and compute slices of its compute instance profile
# index (mig-manager.md section 5.5).
GPU_INSTANCES = {0: (1, ""), 1: (2, ""), 2: (3, ""), 3: (4, ""), 4: (7, ""), 5: (8, ""), 6: (6, ""), 7: (1, "+me"),
                 8: (2, "+me"), 9: (1, ""), 10: (1, "+gfx"), 11: (2, "+gfx"), 12: (4, "+gfx"), 13: (1, "-me"),
                 14: (2, "-me"), 15: (1, "+me.all"), 16: (2, "+me.all")}
COMPUTE_INSTANCES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6, 7: 1, 8: 7}


def mig_names(model):
    """(name, GPU instance profile, compute slices equal GPU slices) of everything that a model can be cut into."""
    profile = PROFILES[model]
    total = profile["memory"]["total_mib"]
    for instance in profile.get("mig", {}).get("profiles", []):
        slices, attribute = GPU_INSTANCES[instance["index"]]
        eighths = math.ceil(8 * instance["memory_mib"] / total)
        # Halves go up here, where Python's round takes them to the even neighbour.
        gigabytes = math.floor(eighths / 8 * math.ceil(total / 1024) + 0.5)
        for index in instance["compute"]:
            compute = COMPUTE_INSTANCES[index]
            if index in (7, 8) or compute > slices:
                continue
            prefix = "" if compute == slices else f"{compute}c."
            yield f"{prefix}{slices}g.{gigabytes}gb{attribute}", instance, compute == slices


def fits(model, names):
    """Whether GPU instances of those profiles can lie on one GPU, for every order in which they might be placed."""
    table = {name: instance for name, instance, _ in mig_names(model)}
    wanted = sorted((table[name] for name in names), key=lambda one: -one["placements"]["size"])
    engines = {"jpeg": 0, "ofa": 0, "decoder": 0}
    whole = {name: max(one["engines"][name] for one in table.values()) for name in engines}
    for one in wanted:
        for name in engines:
            engines[name] += one["engines"][name]
    if any(engines[name] > whole[name] for name in engines):
        return False
    if any(sum(one["id"] == other["id"] for other in wanted) > one["count"] for one in wanted):
        return False

    def place(index, taken):
        if index == len(wanted):
            return True
        size = wanted[index]["placements"]["size"]
        spans = [set(range(start, start + size)) for start in wanted[index]["placements"]["starts"]]
        return any(place(index + 1, taken | span) for span in spans if not span & taken)
    return place(0, set())


def layout(rng, model, whole_only):
    """MIG devices that fit on one GPU of the model: {profile: count}."""
    names = [name for name, _, whole in mig_names(model) if whole or not whole_only]
    chosen = []
    for name in [rng.choice(names) for _ in range(rng.randint(1, 9))]:
        if fits(model, chosen + [name]):
            chosen.append(name)
    return {name: chosen.count(name) for name in sorted(set(chosen))}


def uniform_layout(rng, model):
    name = rng.choice([name for name, _, whole in mig_names(model) if whole])
    count = 1
    while fits(model, [name] * (count + 1)):
        count += 1
    return {name: rng.choice([count, count, rng.randint(1, count)])}


class Case:
    """Grown step by step; `value` is what is run."""

    def __init__(self, seed, number):
        self.rng = random.Random(f"{seed}/{number}")
        self.tags = set()
        self.strategy = self.rng.choice(["none", "none", "single", "mixed", "mixed"])
        self.value = {"name": str(number), "seed": f"{seed}/{number}", "questions": 6}
        self.gpus()
        self.options()
        self.faults()
        self.value["plugin"]["resources"] = self.resources()
        self.value["tags"] = sorted(self.tags)

    # The node.

    def gpus(self):
        rng = self.rng
        models = [rng.choice(sorted(PROFILES)) for _ in range(rng.choice([1, 1, 1, 1, 1, 2]))]
        if self.strategy != "none" and rng.random() < 0.75:
            models = [rng.choice([name for name in sorted(PROFILES) if "mig" in PROFILES[name]]) for _ in models]
        entries = []
        for model in models:
            count = rng.choice([1, 1, 2, 2, 3, 4, 4, 6, 8]) if len(models) == 1 else rng.randint(1, 4)
            entries += self.entries(model, count)
        if rng.random() < 0.03:
            entries = [self.entries(models[0], 1)[0] | {"count": 16}]
        if len({(entry["profile"], entry.get("name")) for entry in entries}) > 1:
            self.tags.add("several-models")
            # Its draw is far from even.
            self.value["attempts"] = 80
        description = {"gpus": entries}
        if rng.random() < 0.3:
            version = rng.choice(["535.104.05", "550.54.15", "590.48.01", "470.256", "580.95.05", "525.60.13"])
            description["driver"] = {"version": version} | rng.choice([{}, {}, {"cuda": "12.4"}, {"cuda": "13.1"}])
        self.value["description"] = description

    def entries(self, model, count):
        """Entries of so many GPUs of a model: one for all, or one for each kind of MIG layout."""
        rng = self.rng
        common = {"profile": model}
        if rng.random() < 0.2:
            common["numa"] = rng.choice([-1, 0, 1, 3])
        if rng.random() < 0.12:
            common["name"] = rng.choice(["NVIDIA DGX Display", "DGX Display", "NVIDIA  A (100), Ti/Max-Q_v2.0",
                                         "GRID\tT4-8Q", "NVIDIA H100 80GB HBM3", "Tesla Über"])
            self.tags.add("name")
        if rng.random() < 0.1:
            common["nvlink"] = {"peers": rng.choice(["none", "switch", "direct"]), "links": rng.choice([1, 4, 12, 18])}
        if rng.random() < 0.15:
            common["fabric"] = {"cluster": rng.choice(["7b968a6d-c8aa-45e1-9e07-e1e51be99c31",
                                                       "00000000-0000-0000-0000-000000000000"]),
                                "clique": rng.choice([0, 7, 4294967295]),
                                "state": rng.choice(["completed", "completed", "in-progress", "not-supported"])}
        if rng.random() < 0.08 and "mig" not in PROFILES[model]:
            common["memory_mib"] = rng.choice([4096, 40960, 100000])
        switch = rng.random() < 0.25 and count >= 4
        mig = "mig" in PROFILES[model] and rng.random() < (0.75 if self.strategy != "none" else 0.3)
        if not mig and not switch:
            return [common | {"count": count}]
        same = self.mig_choice(model) if mig and rng.random() < 0.7 else None
        entries = []
        for index in range(count):
            entry = dict(common, count=1)
            if switch:
                entry["pcie_switch"] = 1 + index // 4 if rng.random() < 0.97 else 0
            if mig:
                entry |= same or self.mig_choice(model)
            entries.append(entry)
        return entries

    def mig_choice(self, model):
        rng = self.rng
        if rng.random() < 0.15:
            return rng.choice([{}, {"mig": {"enabled": True}}])
        if rng.random() < 0.06:
            devices = layout(rng, model, whole_only=False)
        elif self.strategy == "single" and rng.random() < 0.85:
            devices = uniform_layout(rng, model)
        else:
            devices = layout(rng, model, whole_only=True)
        return {"mig": {"enabled": True, "devices": devices}}

    # How the programs are configured.

    def options(self):
        rng = self.rng
        settings, plugin_settings = {}, {}
        if self.strategy != "none" or rng.random() < 0.2:
            settings["migStrategy"] = self.strategy
        if rng.random() < 0.2:
            settings["failOnInitError"] = rng.choice([True, False])
        for name, odds in (("gdrcopyEnabled", 0.1), ("gdsEnabled", 0.1), ("mofedEnabled", 0.1)):
            if rng.random() < odds:
                settings[name] = rng.choice([True, True, False])
        if rng.random() < 0.1:
            settings["deviceDiscoveryStrategy"] = rng.choice(["auto", "nvml"])
        if rng.random() < 0.3:
            settings["nvidiaDriverRoot"] = rng.choice(["/", "/run/nvidia/driver", "/opt/driver/"])
        if rng.random() < 0.2:
            settings["nvidiaDevRoot"] = rng.choice(["/", "/run/nvidia/driver", "/opt/dev/"])
        strategies = ["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]
        if rng.random() < 0.75:
            plugin_settings["deviceListStrategy"] = rng.choice([
                ["envvar"], ["cdi-annotations", "cdi-cri"], ["cdi-cri"], ["volume-mounts"],
                rng.sample(strategies, rng.randint(1, 4))])
        if rng.random() < 0.4:
            plugin_settings["deviceIDStrategy"] = rng.choice(["uuid", "index"])
        if rng.random() < 0.5:
            plugin_settings["passDeviceSpecs"] = rng.choice([True, True, False])
        if rng.random() < 0.15:
            plugin_settings["cdiAnnotationPrefix"] = rng.choice(["cdi.k8s.io/", "custom.cdi.k8s.io/", "example.com/"])
        if rng.random() < 0.3:
            plugin_settings["sharedDevicesAllocationPolicy"] = rng.choice(["distributed", "packed"])
        if rng.random() < 0.15:
            plugin_settings["nvidiaCTKPath"] = rng.choice(["/usr/bin/nvidia-ctk", "/opt/x/nvidia-cdi-hook"])
        self.settings = settings
        self.cdi = any(name.startswith("cdi") for name in plugin_settings.get("deviceListStrategy", []))
        self.render(settings, plugin_settings, self.sharing())

    def sharing(self):
        """The configuration file's blocks beside `flags`."""
        rng = self.rng
        blocks = {}
        if rng.random() < 0.45:
            names = ["nvidia.com/gpu"] + sorted(self.mig_resources())
            resources = [{"name": name, "replicas": rng.choice([2, 2, 3, 4, 10, 100])}
                         for name in rng.sample(names, rng.randint(1, len(names)))]
            if rng.random() < 0.2:
                resources.append({"name": "nvidia.com/unknown", "replicas": 5})
            if rng.random() < 0.2:
                resources[0]["rename"] = rng.choice(["nvidia.com/other", "slice"])
            if rng.random() < 0.2:
                resources[0]["devices"] = rng.choice(["all", 1, [0], ["0:0"]])
            if rng.random() < 0.15:
                resources[0]["name"] = resources[0]["name"].removeprefix("nvidia.com/")
            block = {"resources": resources}
            if rng.random() < 0.3:
                block["renameByDefault"] = rng.choice([True, True, False])
            if rng.random() < 0.3:
                block["failRequestsGreaterThanOne"] = rng.choice([True, False])
            blocks["sharing"] = {"timeSlicing": block}
            self.tags.add("sharing")
        if rng.random() < 0.08:
            blocks["imex"] = rng.choice([{"channelIDs": []}, {"channelIDs": [0]},
                                         {"channelIDs": [0], "required": False}])
        if rng.random() < 0.08:
            blocks["resources"] = {"gpus": [{"pattern": "*H100*", "name": "h100"}, {"pattern": "*", "name": "rest"}]}
        return blocks

    def render(self, settings, plugin_settings, blocks):
        """Each setting goes to the file, a variable or a flag; some to two of them, of which the nearer counts."""
        rng = self.rng
        file = {"version": "v1"} if rng.random() < 0.8 else {}
        file |= blocks
        flags, env = [], {}
        for name, value in {**settings, **plugin_settings}.items():
            where = rng.choice(["file", "env", "flag"])
            flag, variable = OPTIONS[name]
            text = ",".join(value) if isinstance(value, list) else json.dumps(value).strip('"')
            if where == "flag":
                flags.append(f"--{flag}={text}")
            elif where == "env":
                env[variable] = text
            if where == "file" or rng.random() < 0.1:
                other = value if where == "file" else ALTERNATIVES.get(name, value)
                place = file.setdefault("flags", {})
                if name in plugin_settings:
                    place = place.setdefault("plugin", {})
                place[name] = other
        config = yaml.safe_dump(file, sort_keys=False) if file != {"version": "v1"} or rng.random() < 0.2 else None
        env.setdefault("DRIVER_ROOT_CTR_PATH", "{root}")
        if rng.random() < 0.1:
            env |= {"DRIVER_ROOT_CTR_PATH": "/", "LD_LIBRARY_PATH": "{libraries}"}
        self.value["plugin"] = {"flags": flags, "env": env, "config": config}
        # Feature discovery knows fewer flags.
        known = [flag for flag in flags if flag.split("=")[0][2:] in DISCOVERY_FLAGS]
        discovery_env = dict(env, LD_LIBRARY_PATH="{libraries}")
        timestamp = rng.choice([["--no-timestamp"], ["--no-timestamp=true"], []])
        self.value["discovery"] = {"flags": known + timestamp, "env": discovery_env, "config": config}

    # What is wrong with it.

    def faults(self):
        rng = self.rng
        whole = all("mig" not in entry for entry in self.value["description"]["gpus"])
        if rng.random() < 0.05:
            self.value["driver"] = False
            self.tags.add("no-driver")
            self.value["plugin"]["env"]["DRIVER_ROOT_CTR_PATH"] = "{root}"
        elif rng.random() < 0.04:
            count = sum(entry["count"] for entry in self.value["description"]["gpus"])
            self.value["before"] = [["lose", str(rng.randrange(count))]]
            self.tags.add("lost")
        elif whole and "sharing" not in self.tags and "name" not in self.tags and rng.random() < 0.4:
            self.incidents()

    def incidents(self):
        """XIDs of whole GPUs: the unhealthy ones follow from them, and stay so for the time of a case."""
        rng = self.rng
        count = sum(entry["count"] for entry in self.value["description"]["gpus"])
        if rng.random() < 0.3:
            variable = rng.choice(["DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS"])
            self.value["plugin"]["env"][variable] = rng.choice(["48", "79,48", " 31 ", "13,x,31", ",", "-4"])
        order = rng.sample(range(count), min(count, rng.randint(1, 3)))
        self.value["incidents"] = []
        ignored = {13, 31, 43, 45, 68, 109} | numbers(self.value["plugin"]["env"].get("DP_DISABLE_HEALTHCHECKS", ""))
        ignored -= numbers(self.value["plugin"]["env"].get("DP_ENABLE_HEALTHCHECKS", ""))
        self.tags.add("incident")
        for gpu in order:
            # Events come in order: when the second is seen, the first has been looked at.
            quiet = rng.choice(sorted(ignored))
            loud = rng.choice([xid for xid in (48, 62, 64, 74, 95, 119, 140) if xid not in ignored])
            self.value["incidents"].append({"gpu": [["xid", str((gpu + 1) % count), str(quiet)],
                                                    ["xid", str(gpu), str(loud)]], "loud": [gpu]})

    # What follows.

    def gpus_with_mig(self):
        for entry in self.value["description"]["gpus"]:
            for _ in range(entry["count"]):
                yield entry, entry.get("mig", {})

    def mig_resources(self):
        names = set()
        for entry, mig in self.gpus_with_mig():
            for name in mig.get("devices", {}):
                if not is_skipped(entry):
                    names.add("nvidia.com/mig-" + name.replace("+", "."))
        return names

    def resources(self):
        """About how many resources register; only how long to wait follows from it."""
        self.tag_mig()
        if not self.value.get("driver", True):
            return 0
        shown = [(entry, mig) for entry, mig in self.gpus_with_mig() if not is_skipped(entry)]
        if self.strategy == "mixed":
            return len(self.mig_resources()) + any(not mig.get("enabled") for _, mig in shown)
        return 1 if shown else 0

    def tag_mig(self):
        migs = [mig for _, mig in self.gpus_with_mig()]
        if any(mig.get("enabled") for mig in migs):
            self.tags.add("mig")
        if any(mig.get("enabled") and not mig.get("devices") for mig in migs):
            self.tags.add("empty-mig")
        if any(is_part_of_an_instance(name) for mig in migs for name in mig.get("devices", {})):
            self.tags.add("compute-instances")
        if self.strategy == "none" and "mig" in self.tags and self.cdi:
            self.tags.add("whole-mig-gpu-by-cdi")
        offers_nothing = all(
            is_skipped(entry) or self.strategy == "mixed" and mig.get("enabled") and not mig.get("devices")
            for entry, mig in self.gpus_with_mig())
        if self.cdi and offers_nothing:
            self.tags.add("nothing-to-offer-by-cdi")
        if self.cdi and "no-driver" in self.tags and self.settings.get("failOnInitError") is False:
            self.tags.add("no-driver-by-cdi")
        models = {entry["profile"] for entry, _ in self.gpus_with_mig()}
        if {"mig", "sharing"} <= self.tags and "RTX-PRO-6000" in models:
            self.tags.add("long-product")


def is_skipped(entry):
    """Both sides pass over GPUs of that name (device-plugin.md section 7)."""
    return "DGX Display" in entry.get("name", "")


def is_part_of_an_instance(name):
    return name.split(".")[0].endswith("c")


def numbers(text):
    return {int(word) for word in text.split(",") if word.strip().isdigit()}


# Setting of the file → flag and variable of the device plugin.
OPTIONS = {
    "migStrategy": ("mig-strategy", "MIG_STRATEGY"), "failOnInitError": ("fail-on-init-error", "FAIL_ON_INIT_ERROR"),
    "gdrcopyEnabled": ("gdrcopy-enabled", "GDRCOPY_ENABLED"), "gdsEnabled": ("gds-enabled", "GDS_ENABLED"),
    "mofedEnabled": ("mofed-enabled", "MOFED_ENABLED"),
    "deviceDiscoveryStrategy": ("device-discovery-strategy", "DEVICE_DISCOVERY_STRATEGY"),
    "nvidiaDriverRoot": ("driver-root", "NVIDIA_DRIVER_ROOT"), "nvidiaDevRoot": ("dev-root", "NVIDIA_DEV_ROOT"),
    "deviceListStrategy": ("device-list-strategy", "DEVICE_LIST_STRATEGY"),
    "deviceIDStrategy": ("device-id-strategy", "DEVICE_ID_STRATEGY"),
    "passDeviceSpecs": ("pass-device-specs", "PASS_DEVICE_SPECS"),
    "cdiAnnotationPrefix": ("cdi-annotation-prefix", "CDI_ANNOTATION_PREFIX"),
    "sharedDevicesAllocationPolicy": ("shared-devices-allocation-policy", "SHARED_DEVICES_ALLOCATION_POLICY"),
    "nvidiaCTKPath": ("nvidia-cdi-hook-path", "NVIDIA_CDI_HOOK_PATH")}
DISCOVERY_FLAGS = {"mig-strategy", "fail-on-init-error", "device-discovery-strategy"}
# Another value of the setting in the file, which a flag or a variable outweighs.
ALTERNATIVES = {"migStrategy": "none", "deviceIDStrategy": "uuid", "passDeviceSpecs": True,
                "sharedDevicesAllocationPolicy": "packed"}


def cases(seed, count):
    return [Case(seed, number).value for number in range(count)]
