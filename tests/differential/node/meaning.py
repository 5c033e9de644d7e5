"""Brings what one side answered into a form in which two equal meanings are equal.

Upstream leaves open the order of devices, of device specifications and of the names that the index strategy gives,
which of several equally loaded GPUs a greedy allocation takes, and the name of an annotation; it names a device once
for each of its replicas. All of that is taken out here, and nothing else.
"""

import collections
import re

ANNOTATION = re.compile(r"_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def base(device_id):
    """The device behind a replica."""
    return device_id.split("::")[0]


def listed(devices):
    found = {device["id"]: {"healthy": device["healthy"], "numa": device.get("numa")} for device in devices}
    return found | {"entries": len(devices)}


def in_any_order(text, separator=","):
    return separator.join(sorted(text.split(separator)))


def container(value, by_index):
    envs = dict(value["envs"])
    annotations = {ANNOTATION.sub("_<id>", name): text for name, text in value["annotations"].items()}
    cdi = list(value["cdi_devices"])
    if by_index:
        envs = {name: in_any_order(text) if name == "NVIDIA_VISIBLE_DEVICES" else text for name, text in envs.items()}
        annotations = {name: in_any_order(text) for name, text in annotations.items()}
        cdi.sort()
    # Upstream names a device once for each of its replicas or MIG devices, which means the same.
    devices = sorted({(one["container"], one["host"], one["permissions"]) for one in value["devices"]})
    mounts = sorted((one["container"], one["host"], one["read_only"]) for one in value["mounts"])
    return {"envs": envs, "annotations": annotations, "cdi_devices": cdi,
            "devices": [" ".join(one) for one in devices], "mounts": [" ".join(map(str, one)) for one in mounts]}


def is_greedy(question, ids):
    """Shared and MIG devices are spread or packed by how many of a GPU's are taken; whole GPUs go by their links."""
    return any("::" in one or one.startswith("MIG-") for one in [*question["available"], *ids])


def spread(question, answer, ids):
    """What a greedy choice decides: from GPUs with so many devices left, so many were taken."""
    left = collections.Counter(base(one) for one in set(question["available"]) - set(question["must_include"]))
    total = collections.Counter(base(one) for one in ids)
    taken = collections.Counter(base(one) for one in answer)
    must = collections.Counter(base(one) for one in question["must_include"])
    chosen = sorted(f"{taken[gpu] - must[gpu]} of {left[gpu]} left of {total[gpu]}" for gpu in taken
                    if taken[gpu] > must[gpu])
    return {"chosen": chosen, "with what is needed": set(question["must_include"]) <= set(answer)}


def reply(answer, ids, by_index):
    for kind in ("ended", "silent"):
        if kind in answer:
            return {kind: answer[kind]}
    question = answer["question"]
    if "error" in answer:
        return {"error": "refused"}
    if "allocate" in question:
        return {"containers": [container(one, by_index) for one in answer["answer"]]}
    if is_greedy(question["prefer"], ids):
        return {"spread": spread(question["prefer"], answer["answer"], ids)}
    return {"preferred": sorted(answer["answer"])}


def plugin(result, by_index):
    value = {"ended": result["ended"], "registered": result["registered"],
             "lists": {resource: listed(devices) for resource, devices in result["lists"].items()},
             "incidents": result["incidents"], "cdi": result.get("cdi", {}), "answers": {}}
    for resource, answers in result["answers"].items():
        ids = [device["id"] for device in result["lists"][resource]]
        value["answers"][resource] = {str(index): reply(answer, ids, by_index) for index, answer in enumerate(answers)}
    return value


def differing_labels(ours, theirs):
    """Theirs of the attempts that agrees with ours: where upstream draws by lot, one of its draws has to."""
    return next((one for one in theirs if one == ours), theirs[0])
