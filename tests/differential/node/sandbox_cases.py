"""Random nodes with devices for virtual machines, seeded: the same seed gives the same.

A case is JSON: `tree` is what lies in /sys and /dev (PCI devices, mediated devices, device nodes), `questions` how many
the kubelet asks of each resource, `remove` the group whose device node goes afterwards. `tags` say what is special about
it; a rule of sandbox_accepted.yaml may be about cases with a tag.
"""

import random

# Models whose names are different resources, NVSwitches, and functions that go along with GPUs.
GPUS = ["1b38", "1db4", "1db6", "1eb8", "20b0", "20b2", "20b5", "20b7", "2230", "2235", "2236", "25b6", "26b1", "26b5",
        "26b9", "27b8", "2321", "2330", "2331", "2335", "2342", "2348", "2901", "2941", "2bb1", "2bb4", "2bb5", "3182",
        "31c2", "2bb3"]
SWITCHES = ["1af1", "22a3"]
COMPANIONS = {"0403": ["10f8", "22ba"], "0c03": ["1ad8"], "0c80": ["1ad9"]}
# Two models of one name; a name that the kubelet would refuse.
ONE_NAME, BAD_NAME = ("20b1", "20f1"), "24fa"
VGPUS = ["GRID T4-1Q", "GRID T4-16Q", "NVIDIA A10-24Q", "NVIDIA A100-4C", "NVIDIA RTX A5000-4C", "NVIDIA  A16-2B"]


class Case:
    def __init__(self, seed, number):
        self.rng = random.Random(f"{seed}/{number}")
        self.tags, self.pci, self.mdev, self.nodes, self.egm = set(), [], [], set(), {}
        self.groups = 0
        self.iommufd = self.rng.random() < 0.35
        if self.iommufd:
            self.tags.add("iommufd")
            self.nodes.add("iommu")
        if self.rng.random() < 0.9:
            self.passthrough()
        if self.rng.random() < 0.4:
            self.vgpus()
        self.others()
        self.memory()
        self.value = {"name": str(number), "seed": f"{seed}/{number}", "questions": 6,
                      "tree": {"pci": self.pci, "mdev": self.mdev, "egm": self.egm, "dev": sorted(self.nodes)},
                      "several_containers": self.rng.random() < 0.1, "unknown_ids": self.rng.random() < 0.3}
        if self.value["several_containers"]:
            self.tags.add("several-containers")
        if self.value["unknown_ids"]:
            self.tags.add("unknown-ids")
        self.value["remove"] = self.removal()
        self.value["tags"] = sorted(self.tags)

    # Numbers are small, so that their order by text and by value differ.

    def address(self):
        while True:
            found = f"{self.rng.choice(['0000', '0000', '0001', '000a'])}:{self.rng.randrange(1, 0xfa):02x}:00"
            if all(not device["at"].startswith(found) for device in self.pci):
                return found

    def group(self):
        self.groups += self.rng.choice([1, 1, 2, 7])
        return self.groups

    def add(self, at, ids, kind, driver, group, numa):
        device = {"at": at, "is": f"10de:{ids}", "class": kind, "group": group}
        if driver:
            device["driver"] = driver
        if numa is not None:
            device["numa"] = numa
        if driver.endswith(("vfio-pci", "vfio_pci")):
            self.nodes |= {"vfio/vfio", f"vfio/{group}"}
            if self.iommufd:
                name = f"vfio{len(self.pci)}"
                device["vfio"] = name
                self.nodes.add(f"vfio/devices/{name}")
        self.pci.append(device)
        return device

    def numa(self):
        node = self.rng.choice([0, 0, 1, 1, 2, 3] + [-1] * (self.rng.random() < 0.1) + [None] * (self.rng.random() < 0.1))
        if node in (None, -1):
            self.tags.add("numa-unknown")
        return node

    def passthrough(self):
        rng = self.rng
        models = rng.sample(GPUS, rng.choice([1, 1, 1, 2, 3]))
        if rng.random() < 0.06:
            models += ONE_NAME
            self.tags.add("one-name")
        if rng.random() < 0.05:
            models.append(BAD_NAME)
            self.tags.add("bad-name")
        kinds = {model: rng.choice(["0300", "0302", "0302"]) for model in models}
        for model in models:
            driver = "vfio-pci"
            if rng.random() < 0.2:
                driver = rng.choice(["nvgrace_gpu_vfio_pci", "nvidia", "nouveau", ""])
            if rng.random() < 0.03:
                driver = "next_gpu_vfio_pci"
                self.tags.add("variant-driver")
            shared = self.group() if rng.random() < 0.07 else None
            for _ in range(rng.choice([1, 1, 2, 2, 4, 8])):
                at, group = self.address(), shared or self.group()
                self.add(f"{at}.0", model, kinds[model], driver, group, self.numa())
                if kinds[model] == "0300" and rng.random() < 0.6:
                    self.companions(at, driver, group)
        if rng.random() < 0.2:
            for _ in range(rng.randint(1, 4)):
                self.add(f"{self.address()}.0", rng.choice(SWITCHES), "0680", "vfio-pci", self.group(), self.numa())
        if rng.random() < 0.05:
            device = rng.choice(self.pci)
            self.nodes.discard(f"vfio/{device['group']}")
            self.tags.add("missing-node")

    def companions(self, at, driver, group):
        for function, (kind, ids) in enumerate(sorted(COMPANIONS.items()), 1):
            if function > 1 and self.rng.random() < 0.6:
                continue
            held = driver
            if self.rng.random() < 0.06:
                held = "snd_hda_intel"
                self.tags.add("blocked-group")
            self.add(f"{at}.{function}", self.rng.choice(ids), kind, held, group, 0)
        self.tags.add("companions")

    def vgpus(self):
        rng = self.rng
        for parent in range(rng.randint(1, 3)):
            at = f"{self.address()}.{rng.choice([0, 4])}"
            self.add(at, rng.choice(GPUS), "0302", "nvidia", self.group(), self.numa())
            kind = rng.choice(VGPUS)
            for instance in range(rng.choice([1, 2, 4])):
                self.mdev.append({"uuid": f"{rng.randrange(16**8):08x}-0000-4000-8000-{parent:06x}{instance:06x}",
                                  "type": kind, "parent": at})
        if rng.random() < 0.1:
            at = f"{self.address()}.0"
            self.pci.append({"at": at, "is": "8086:4905", "class": "0300", "driver": "i915", "group": self.group(),
                             "numa": 0})
            self.mdev.append({"uuid": "ffffffff-0000-4000-8000-000000000000", "type": "i915-GVTg_V5_4", "parent": at})
            self.tags.add("other-vendor-mdev")
        if rng.random() < 0.1:
            self.mdev.append({"uuid": "eeeeeeee-0000-4000-8000-000000000000", "parent": self.mdev[0]["parent"]})

    def others(self):
        """Devices that nobody is to offer."""
        rng = self.rng
        for _ in range(rng.randint(0, 5)):
            self.pci.append({"at": f"{self.address()}.0", "is": rng.choice(["8086:1572", "15b3:1019", "1002:740f"]),
                             "class": rng.choice(["0200", "0302", "0604"]), "driver": rng.choice(["vfio-pci", "ice"]),
                             "group": self.group(), "numa": 0})
        if rng.random() < 0.1:
            self.pci.append({"at": f"{self.address()}.0", "is": "10de:2236", "class": "0302", "driver": "vfio-pci",
                             "numa": 0})

    def memory(self):
        """EGM of two GPUs, of one, of none."""
        gpus = [device["at"] for device in self.pci if device.get("driver", "").endswith(("vfio-pci", "vfio_pci"))]
        if len(gpus) < 2 or self.rng.random() > 0.2:
            return
        for index, size in enumerate(self.rng.sample([0, 1, 2, 2, 4], 2)):
            self.egm[f"egm{index}"] = " ".join(self.rng.sample(gpus, min(size, len(gpus)))).upper()
            if self.rng.random() < 0.8:
                self.nodes.add(f"egm{index}")

    def removal(self):
        """A group whose node goes while the plugin runs. With iommufd the devices' own nodes are looked at."""
        groups = sorted({node for node in self.nodes if node.startswith("vfio/") and node.split("/")[-1].isdigit()})
        if self.iommufd or not groups or self.rng.random() < 0.5:
            return None
        return self.rng.choice(groups)


def cases(seed, count):
    return [Case(seed, number).value for number in range(count)]
