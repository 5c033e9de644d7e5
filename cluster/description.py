"""The cluster file: which nodes a cluster has, and which GPUs they simulate or have from the machine.

Every mistake is reported as `file:line: what is wrong; what would be right`, before anything is touched.
"""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
import re

import yaml

from cluster.errors import MalformedInput

KUBERNETES_VERSION = "1.35"
DEFAULT_FILE = pathlib.Path(__file__).parent / "clusters" / "default.yaml"
DEFAULT_DRIVER_VERSION = "580.95.05"
MAX_NODES = 200

# The name becomes part of a network interface's name, "pitcrew-NAME", which Linux limits to 15 characters.
_CLUSTER_NAME = re.compile(r"^[a-z]([a-z0-9]{0,6})$")
_NODE_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")
_LABEL_KEY = re.compile(r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")
_VERSION = re.compile(r"^[0-9]+(\.[0-9]+){1,2}$")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DRIVERS = ("none", "host")
_MACHINE = "machine"  # as `gpus`: the machine's own
_TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_INTEGER = re.compile(r"^[0-9]+$")


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    gpus: list[dict]  # simulated ones, as in a GPU description: [{"profile": "H100-80", "count": 8}, ...]
    machine_gpus: bool  # the machine's own GPUs, with the driver that it has
    gpu_lines: list[int]  # the lines of the cluster file where `gpus` and then each of its entries begin
    kernel: dict | None  # as in a GPU description; with one, the node has a whole /sys of its own, writes included
    kernel_line: int  # the line of the cluster file where it begins
    driver: str  # "none": the operator brings it; "host": preinstalled, as an administrator would have
    driver_version: str
    labels: dict[str, str]
    taints: list[dict[str, str]]
    topology_policy: str  # of the kubelet's topology manager


@dataclasses.dataclass(frozen=True)
class Cluster:
    path: pathlib.Path
    name: str
    nodes: list[Node]
    values: dict  # Helm values that the operator's chart gets on this cluster, before those of VALUES

    def plain(self) -> dict:
        """What distinguishes one cluster from another; two files that say the same are the same. Helm values can be
        changed while a cluster is up."""
        nodes = [dataclasses.asdict(node) for node in self.nodes]
        for node in nodes:
            del node["gpu_lines"], node["kernel_line"]
        return {"name": self.name, "nodes": nodes}


class _Reader:
    def __init__(self, path: pathlib.Path):
        self.path = path

    def fail(self, node, message: str):
        raise MalformedInput(f"{self.path}:{node.start_mark.line + 1}: {message}")

    def mapping(self, node, what: str, keys: tuple[str, ...] | None) -> dict[str, tuple]:
        """The entries of a mapping as {key: (key node, value node)}; `keys` None allows any key."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{what} must be a mapping of keys to values, such as `{(keys or ('key',))[0]}: ...`")
        entries: dict[str, tuple] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if keys is not None and key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(keys)}"
                self.fail(key_node, f"{what} has no key `{key}`; {hint}")
            if key in entries:
                self.fail(key_node, f"`{key}` stands twice in {what}; keep one")
            entries[key] = (key_node, value_node)
        return entries

    def sequence(self, node, what: str) -> list:
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{what} must be a list, each entry on a line of its own that begins with `- `")
        return node.value

    def text(self, node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
            self.fail(node, f"{what} must be a single value")
        return node.value

    def matching(self, node, what: str, pattern: re.Pattern, rule: str) -> str:
        value = self.text(node, what)
        if not pattern.match(value):
            self.fail(node, f"{what} `{value}` is not valid; {rule}")
        return value

    def choice(self, node, what: str, choices: tuple[str, ...]) -> str:
        value = self.text(node, what)
        if value not in choices:
            self.fail(node, f"{what} `{value}` is not known; one of: {', '.join(choices)}")
        return value

    def plain(self, node):
        """A YAML node as plain values, for the part that the simulation itself reads (GPUs)."""
        if isinstance(node, yaml.MappingNode):
            return {str(key.value): self.plain(value) for key, value in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(value) for value in node.value]
        return yaml.SafeLoader("").construct_object(node, deep=True)


def _labels(reader: _Reader, node) -> dict[str, str]:
    labels = {}
    for key, (key_node, value_node) in reader.mapping(node, "labels", None).items():
        if not _LABEL_KEY.match(key):
            reader.fail(key_node, f"label name `{key}` is not valid; such as `example.com/rack`")
        prefix = key.partition("/")[0] if "/" in key else ""
        if prefix.endswith(("kubernetes.io", "k8s.io")):
            reader.fail(key_node, f"a node may not give itself the label `{key}`: Kubernetes keeps "
                                  "*.kubernetes.io and *.k8s.io for itself; use another prefix, or "
                                  "`kubectl label` once the cluster is up")
        labels[key] = reader.matching(value_node, f"value of label {key}", _LABEL_VALUE,
                                      "at most 63 letters, digits, `-`, `_` and `.`")
    return labels


def _taints(reader: _Reader, node) -> list[dict[str, str]]:
    taints = []
    for entry in reader.sequence(node, "taints"):
        keys = reader.mapping(entry, "a taint", ("key", "value", "effect"))
        for needed in ("key", "effect"):
            if needed not in keys:
                reader.fail(entry, f"the taint has no `{needed}`; a taint is "
                                   "`{key: example.com/gpu, value: \"true\", effect: NoSchedule}`")
        taint = {"key": reader.matching(keys["key"][1], "taint key", _LABEL_KEY, "such as `nvidia.com/gpu`"),
                 "effect": reader.choice(keys["effect"][1], "taint effect", _EFFECTS)}
        if "value" in keys:
            taint["value"] = reader.matching(keys["value"][1], "taint value", _LABEL_VALUE,
                                             "at most 63 letters, digits, `-`, `_` and `.`")
        taints.append(taint)
    return taints


def _gpus(reader: _Reader, node) -> list[dict]:
    """Only the shape is checked here: profiles and their options belong to the simulation."""
    gpus = []
    if isinstance(node, yaml.ScalarNode):
        reader.fail(node, f"gpus must be a list, such as `[{{profile: H100-80, count: 8}}]`, or `{_MACHINE}`: the "
                          "machine's own")
    for entry in reader.sequence(node, "gpus"):
        keys = reader.mapping(entry, "an entry of gpus", None)
        if "profile" not in keys:
            reader.fail(entry, "an entry of gpus has no `profile`; such as `- {profile: H100-80, count: 8}`")
        if "count" in keys:
            count_node = keys["count"][1]
            count = reader.text(count_node, "count")
            if not _INTEGER.match(count) or not 1 <= int(count) <= 16:
                reader.fail(count_node, f"count `{count}` is not valid; a node has 1 to 16 GPUs of a kind")
        gpus.append(reader.plain(entry))
    return gpus


def _refuse_beside_machine(reader: _Reader, keys: dict[str, tuple]):
    for name in ("driver", "driverVersion", "kernel"):
        if name in keys:
            reader.fail(keys[name][0], f"`{name}` is about simulated GPUs; with `gpus: {_MACHINE}` the node has the "
                                       "machine's driver and kernel as they are; leave it out")


def _node(reader: _Reader, node) -> Node:
    keys = reader.mapping(node, "a node", ("name", "gpus", "driver", "driverVersion", "kernel", "labels", "taints",
                                           "topologyPolicy"))
    if "name" not in keys:
        reader.fail(node, "the node has no `name`; such as `- name: gpu-1`")
    name = reader.matching(keys["name"][1], "node name", _NODE_NAME,
                           "lower-case letters, digits and `-`, at most 40, such as `gpu-1`")
    if name == "control-plane":
        reader.fail(keys["name"][1], "the name `control-plane` is taken by the cluster's own control plane")
    machine_gpus = "gpus" in keys and keys["gpus"][1].value == _MACHINE
    if machine_gpus:
        _refuse_beside_machine(reader, keys)
    gpus = _gpus(reader, keys["gpus"][1]) if "gpus" in keys and not machine_gpus else []
    driver = reader.choice(keys["driver"][1], "driver", _DRIVERS) if "driver" in keys else "none"
    if driver == "host" and not gpus:
        reader.fail(keys["driver"][1], "a node without gpus cannot have a host driver; leave `driver` out")
    version = DEFAULT_DRIVER_VERSION
    if "driverVersion" in keys:
        if driver != "host":
            reader.fail(keys["driverVersion"][0], "`driverVersion` belongs to `driver: host`; the version that the "
                                                  "operator installs is chosen in the ClusterPolicy")
        version = reader.matching(keys["driverVersion"][1], "driverVersion", _VERSION,
                                  f"such as `{DEFAULT_DRIVER_VERSION}`")
    kernel = None
    if "kernel" in keys:
        if not gpus:
            reader.fail(keys["kernel"][0], "`kernel` says what the kernel does with the node's simulated GPUs, and this "
                                           "node has none; leave it out")
        reader.mapping(keys["kernel"][1], "kernel", None)
        kernel = reader.plain(keys["kernel"][1])
    return Node(name=name, gpus=gpus, machine_gpus=machine_gpus, kernel=kernel,
                kernel_line=keys["kernel"][1].start_mark.line + 1 if "kernel" in keys else 0,
                gpu_lines=[part.start_mark.line + 1 for part in (keys["gpus"][0], *keys["gpus"][1].value)]
                if gpus else [],
                driver=driver, driver_version=version,
                labels=_labels(reader, keys["labels"][1]) if "labels" in keys else {},
                taints=_taints(reader, keys["taints"][1]) if "taints" in keys else [],
                topology_policy=reader.choice(keys["topologyPolicy"][1], "topologyPolicy", _TOPOLOGY_POLICIES)
                if "topologyPolicy" in keys else "none")


def parse(text: str, path: pathlib.Path) -> Cluster:
    reader = _Reader(path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise MalformedInput(f"{path}:{line}: not valid YAML: {error.problem}"
                             + (f" ({error.context})" if error.context else "")) from error
    except yaml.YAMLError as error:
        raise MalformedInput(f"{path}:1: not valid YAML: {error}") from error
    if root is None:
        raise MalformedInput(f"{path}:1: the file is empty; {DEFAULT_FILE} is an example")
    keys = reader.mapping(root, "the cluster file", ("name", "kubernetes", "nodes", "values"))
    name = "local"
    if "name" in keys:
        name = reader.matching(keys["name"][1], "cluster name", _CLUSTER_NAME,
                               "1 to 7 lower-case letters and digits, beginning with a letter, such as `local`")
    if "kubernetes" in keys:
        reader.choice(keys["kubernetes"][1], "kubernetes version", (KUBERNETES_VERSION,))
    if "nodes" not in keys:
        reader.fail(root, "the cluster file has no `nodes`; such as `nodes: [{name: gpu-1, gpus: [{profile: L4}]}]`")
    entries = reader.sequence(keys["nodes"][1], "nodes")
    if not 1 <= len(entries) <= MAX_NODES:
        reader.fail(keys["nodes"][1], f"a cluster has 1 to {MAX_NODES} nodes, not {len(entries)}")
    nodes: list[Node] = []
    for entry in entries:
        node = _node(reader, entry)
        if any(other.name == node.name for other in nodes):
            reader.fail(entry, f"two nodes are named `{node.name}`; give each its own name")
        if node.machine_gpus and any(other.machine_gpus for other in nodes):
            reader.fail(entry, f"two nodes have `gpus: {_MACHINE}`; each would give the same GPUs to its pods, so "
                               "only one may")
        nodes.append(node)
    values = {}
    if "values" in keys:
        reader.mapping(keys["values"][1], "values", None)
        values = reader.plain(keys["values"][1])
    return Cluster(path=path, name=name, nodes=nodes, values=values)


def load(path: pathlib.Path) -> Cluster:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MalformedInput(f"{path}: {error.strerror}; give a cluster file, such as {DEFAULT_FILE}") from error
    except UnicodeDecodeError as error:
        raise MalformedInput(f"{path}:1: not UTF-8 text ({error.reason} at byte {error.start})") from error
    return parse(text, path)
