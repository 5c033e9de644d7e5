"""What differs between two operators after the same upgrade of the driver, and what of it is known.

Known is what differs on purpose and chance makes visible or not (docs/differences.md, "Driver upgrades"). What chance
alone decides with either operator is no difference.
"""

import collections
import itertools

BEGINS = "cordon-required"
RESTARTS_ONLY = ["pod-restart-required", "validation-required", "uncordon-required", "upgrade-done"]
WAITS, DONE = "upgrade-required", "upgrade-done"
REQUESTED = "nvidia.com/gpu-driver-upgrade-requested"
SPARED = "waited when the version was set back, and needs no upgrade any longer"
STILL_ASKED = "is skipped, and keeps what was asked for until it begins"
FORGOTTEN = "the other was killed when it had taken the request away and done nothing yet, and forgot it"


def takes_turns_by_chance(case, node):
    """Whether nobody promises how often the node goes through an upgrade: of the nodes that wait for a place either
    operator takes any, and whichever has one when the driver changes again goes twice."""
    return bool(case.get("edit") and case["upgradePolicy"]["maxParallelUpgrades"] and not node["skip"] and not node["cordoned"])


def is_forgotten(case, theirs, ours):
    """What was asked for became a mere restart of the driver's pod."""
    if case["change"] != "request" or not isinstance(case.get("kill"), float) or BEGINS not in ours["states"]:
        return False
    before = ours["states"][:ours["states"].index(BEGINS)]
    restart = [state for state in RESTARTS_ONLY if state != "uncordon-required" or not ours["cordoned"]]
    return theirs["states"] == before + restart and {**theirs, "states": None} == {**ours, "states": None}


def is_spared(case, ours):
    """It waited when the version was set back, and nothing has been done to it."""
    return bool(case.get("back")) and ours["states"][-2:] == [WAITS, DONE]


def is_upgraded_all_the_same(theirs, spared):
    """What the other makes of the states of a node that is spared: one way more, or none where it is skipped."""
    waited, more = list(spared[:-1]), list(theirs[len(spared) - 1:])
    return list(theirs[:len(waited)]) == waited and (not more or more.count(DONE) == 1 and more[-1] == DONE)


def is_still_asked(case, node, theirs, ours):
    """A skipped node, of which the other forgets that it was asked for."""
    return case["change"] == "request" and node["skip"] and theirs["states"] == ours["states"] and \
        theirs["cordoned"] == ours["cordoned"] and sorted([*theirs["annotations"], REQUESTED]) == ours["annotations"]


def goes_back_by_chance(case, node):
    """Of the nodes that wait for a place when the version is set back, no one knows which has just got one; and the other
    takes the set-back version for a mere restart, if it looks before the DaemonSet controller does."""
    return bool(case.get("back")) and takes_turns_by_chance(case, node)


def by_chance(case, result):
    """The nodes of which no one knows when their turn is: their histories in any order, and each without."""
    names = [node["name"] for node in case["nodes"] if takes_turns_by_chance(case, node) and node["name"] in result["nodes"]]
    histories = collections.Counter(tuple(result["nodes"][name]["states"]) for name in names)
    return histories, result["nodes"] | {name: {**result["nodes"][name], "states": "any"} for name in names}


def differences(case, theirs, ours):
    """(a text for each node that went another way, or ended otherwise; the same of those that are known)."""
    found, known = [], []
    if "stopped" in theirs or "stopped" in ours:
        found.append(f"did not end: other {theirs.get('stopped', 'did')}; ours {ours.get('stopped', 'did')}")
    (their_histories, their_nodes), (our_histories, our_nodes) = by_chance(case, theirs), by_chance(case, ours)
    spared = {name for name, node in ours["nodes"].items() if is_spared(case, node)}
    restarted = set()
    if case.get("back"):
        chance = [node["name"] for node in case["nodes"] if goes_back_by_chance(case, node)]
        found.extend(f"{name} did not come to an end: {side[name]}" for side in (theirs["nodes"], ours["nodes"])
                     for name in chance if name not in side or side[name]["states"][-1] != DONE)
        known.extend(f"{name}: {SPARED}" for name in chance if name in spared)
        restarted |= {name for name in chance if name in theirs["nodes"]
                      and (WAITS, RESTARTS_ONLY[0]) in itertools.pairwise(theirs["nodes"][name]["states"])}
    elif their_histories != our_histories:
        found.append(f"nodes that waited for a place\n      only other {dict(their_histories - our_histories)}\n"
                     f"      only ours  {dict(our_histories - their_histories)}")
    drawn = {node["name"]: node for node in case["nodes"]}
    for name in sorted(their_nodes | our_nodes):
        mine, other = our_nodes.get(name), their_nodes.get(name)
        if mine and other and is_forgotten(case, other, mine):
            restarted.add(name)
            known.append(f"{name}: {FORGOTTEN}")
        elif mine and other and is_still_asked(case, drawn[name], other, mine):
            known.append(f"{name}: {STILL_ASKED}")
        elif mine and other and mine["states"] != "any" and name in spared and mine["cordoned"] == other["cordoned"] and \
                is_upgraded_all_the_same(other["states"], mine["states"]):
            known.append(f"{name}: {SPARED}")
        elif mine != other:
            found.append(f"{name}\n      other {other}\n      ours  {mine}")
    only_theirs, only_ours = set(theirs["pods"]) - set(ours["pods"]), set(ours["pods"]) - set(theirs["pods"])
    only_theirs -= {f"{kind}-{name}" for kind in ("user", "other") for name in restarted}
    only_ours -= {f"{kind}-{name}" for kind in ("user", "other") for name in spared}
    if only_theirs or only_ours:
        found.append(f"pods only with the other: {sorted(only_theirs)}, only with ours: {sorted(only_ours)}")
    return found, known
