"""Brings an object into a form in which two equal meanings have one text."""

import collections
import copy

import yaml

# Script texts are each operator's own wording; what is compared is that there is one, and where.
SCRIPT_COMMANDS = (["sh", "-c"], ["/bin/sh", "-c"], ["bash", "-xc"], ["bash", "-c"])
SERVER_FIELDS = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink")


def is_program(argument):
    """A program's name rather than a script: [sh, -c] [nvidia-validator] means the same everywhere."""
    return " " not in argument.strip() and "\n" not in argument.strip()


def container(value):
    if value.get("command") in SCRIPT_COMMANDS and value.get("args"):
        value["args"] = [a if is_program(a) else "<script>" for a in value["args"]]
    for hook in value.get("lifecycle", {}).values():
        command = hook.get("exec", {}).get("command", [])
        hook.get("exec", {})["command"] = [a if is_program(a) else "<script>" for a in command]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        command = value.get(probe, {}).get("exec", {}).get("command")
        if command:
            value[probe]["exec"]["command"] = [a if is_program(a) else "<script>" for a in command]
    # Order only matters for repeated names, and sorting by name keeps theirs.
    value.get("env", []).sort(key=lambda e: e["name"])
    value.get("volumeMounts", []).sort(key=lambda m: (m["name"], m["mountPath"]))


def daemonset(value):
    pod = value["spec"]["template"]["spec"]
    for one in pod.get("initContainers", []) + pod.get("containers", []):
        container(one)
    pod.get("volumes", []).sort(key=lambda v: v["name"])
    pod.pop("serviceAccount", None)  # the server copies serviceAccountName into it


def rules(value):
    for rule in value.get("rules") or []:
        for member in rule.values():
            member.sort()
    value.get("rules", []).sort(key=str) if value.get("rules") else None


def content(name, text):
    """A file of a ConfigMap: its meaning, not its layout."""
    if name.endswith(".sh"):
        return "<script>"
    return yaml.safe_load(text) if name.endswith(".yaml") else text


def prometheus_rule(value):
    """Names of groups and texts for people are each operator's own."""
    for group in value["spec"].get("groups", []):
        group.pop("name", None)
        for rule in group["rules"]:
            rule["expr"] = " ".join(rule["expr"].split())
            rule["annotations"] = sorted(rule.get("annotations", {}))


def constraints(value):
    annotations = value["metadata"].get("annotations", {})
    if "kubernetes.io/description" in annotations:
        annotations["kubernetes.io/description"] = "<text>"
    for name in [name for name, member in value.items() if member is None]:
        value.pop(name)


def normalise(value):
    value = copy.deepcopy(value)
    metadata = value.get("metadata", {})
    for name in SERVER_FIELDS:
        metadata.pop(name, None)
    for reference in metadata.get("ownerReferences", []):
        reference.pop("uid", None)
    annotations = metadata.get("annotations", {})
    annotations.pop("nvidia.com/last-applied-hash", None)
    annotations.pop("nvidia.com/gpu-operator.driver-content", None)
    annotations.pop("deprecated.daemonset.template.generation", None)
    if not annotations:
        metadata.pop("annotations", None)
    value.pop("status", None)
    kind = value.get("kind")
    if kind == "DaemonSet":
        daemonset(value)
    elif kind in ("Role", "ClusterRole"):
        rules(value)
    elif kind == "ConfigMap":
        value["data"] = {name: content(name, text) for name, text in value.get("data", {}).items()}
    elif kind == "Service":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            value["spec"].pop(name, None)
        for port in value["spec"].get("ports", []):
            port.pop("nodePort", None)
    elif kind == "ServiceMonitor":
        for endpoint in value["spec"].get("endpoints", []):
            for name in ("honorLabels", "relabelings"):
                if not endpoint.get(name):
                    endpoint.pop(name, None)
    elif kind == "PrometheusRule":
        prometheus_rule(value)
    elif kind == "SecurityContextConstraints":
        constraints(value)
    return value


def by_name(*lists):
    """The items of each list by their names, or None where names do not tell them apart. Of mounts with one name each has
    its place in the container beside it."""
    if not all(isinstance(item, dict) and "name" in item for items in lists for item in items):
        return None
    repeated = {name for items in lists for name, count in
                collections.Counter(item["name"] for item in items).items() if count > 1}

    def key(item):
        return f"{item['name']} {item.get('mountPath')}" if item["name"] in repeated else item["name"]
    keyed = [{key(item): item for item in items} for items in lists]
    return keyed if all(len(one) == len(items) for one, items in zip(keyed, lists)) else None


def differences(ours, theirs, path=""):
    """Paths at which two values differ, each with both values."""
    # A map that one side lacks is told key by key, an item of a list as a whole.
    if path and not path.endswith("]"):
        if ours is None and isinstance(theirs, dict):
            ours = {}
        if theirs is None and isinstance(ours, dict):
            theirs = {}
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(set(ours) | set(theirs)):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(theirs, list):
        keyed = by_name(ours, theirs)
        if keyed is not None:
            a, b = keyed
            for name in sorted(set(a) | set(b)):
                yield from differences(a.get(name), b.get(name), f"{path}[{name}]")
            if [name for name in a if name in b] != [name for name in b if name in a]:
                yield f"{path} (order)", list(a), list(b)
        elif len(ours) == len(theirs):
            for index, (a, b) in enumerate(zip(ours, theirs)):
                yield from differences(a, b, f"{path}[{index}]")
        else:
            yield path, ours, theirs
    elif ours != theirs:
        yield path, ours, theirs
