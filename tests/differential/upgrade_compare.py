"""What differs between two operators after the same upgrade of the driver, and what of it is known.

Known is what differs on purpose and chance makes visible or not (docs/differences.md, "Driver upgrades"). What chance
alone decides with either operator is no difference.
"""

import collections

BEGINS = "cordon-required"
RESTARTS_ONLY = ["pod-restart-required", "validation-required", "uncordon-required", "upgrade-done"]
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
    if their_histories != our_histories:
        found.append(f"nodes that waited for a place\n      only other {dict(their_histories - our_histories)}\n"
                     f"      only ours  {dict(our_histories - their_histories)}")
    restarted = set()
    for name in sorted(their_nodes | our_nodes):
        mine, other = our_nodes.get(name), their_nodes.get(name)
        if mine and other and is_forgotten(case, other, mine):
            restarted.add(name)
            known.append(f"{name}: {FORGOTTEN}")
        elif mine != other:
            found.append(f"{name}\n      other {other}\n      ours  {mine}")
    only_theirs, only_ours = set(theirs["pods"]) - set(ours["pods"]), set(ours["pods"]) - set(theirs["pods"])
    only_theirs -= {f"{kind}-{name}" for kind in ("user", "other") for name in restarted}
    if only_theirs or only_ours:
        found.append(f"pods only with the other: {sorted(only_theirs)}, only with ours: {sorted(only_ours)}")
    return found, known
