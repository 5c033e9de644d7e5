#!/usr/bin/env python3
"""Compares Pitcrew's operator with another one, object by object, over random valid policies.

Both run as plain processes, each against a kube-apiserver and etcd of its own with the same nodes,
ConfigMaps and Secrets. For each policy the objects that each makes, and the labels that each gives nodes
and namespace, are normalised and compared; a difference that accepted.yaml does not list is a failure.

The other operator is a folder named by $PITCREW_ORACLE with the program `gpu-operator`, its assets below
`opt/gpu-operator`, and the CRDs that only it needs below `crds`. Without it the exit status is 77
("skipped: no oracle"). The same seed gives the same policies.

--transitions needs no other operator: one side of Pitcrew meets each policy on an empty cluster, the other
as a change of the policy before; both have to end with the same objects.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import compare  # noqa: E402
import policies  # noqa: E402
import shrink  # noqa: E402
from sides import CRDS, POLICIES, ROOT, Side, node_info, oracle_command  # noqa: E402,F401

SKIPPED = 77
# An operator that has written nothing for so long has finished; the later ones when the sides differ.
QUIET_SECONDS = (0.5, 2, 6, 12)
# What stays when a policy no longer asks for it: a default that something of the user's replaces, the
# configuration of a node's GPUs, and what the namespace allows, which others may rely on.
TRANSITIONS = [{"where": where} for where in (
    "ConfigMap/default-mig-parted-config", "ConfigMap/default-gpu-clients", "ConfigMap/default-vgpu-devices-config",
    "Node/* labels.nvidia.com/mig.config", "Namespace/* labels.pod-security.kubernetes.io/*")]


class Comparison:
    """Both operators over one cluster."""

    def __init__(self, ours, theirs, cluster, accepted):
        self.sides = [ours, theirs]
        self.cluster, self.accepted = cluster, accepted
        self.used = set()  # places of the rules that were needed
        self.workers = concurrent.futures.ThreadPoolExecutor(2)

    def both(self, work):
        """What `work` returns for each side; they are at it at the same time."""
        return list(self.workers.map(work, self.sides))

    def start(self):
        def restart(side):
            side.stop()
            side.set_cluster(self.cluster)
            side.set_nodes(self.cluster["nodes"])
            side.start()
        self.both(restart)

    def check(self, policy):
        """Outcome of each side, and what differs."""
        name = policy["metadata"]["name"]

        def submit(side):
            # Without a policy ours takes its labels off every node, those of the cluster file included.
            side.set_nodes([])
            side.submit(policy)
            side.wait_for_status(name)
            side.set_nodes(self.cluster["nodes"])

        def tidy(side):
            if side.process.poll() is not None:
                side.start()
            if not side.keeps_policy:
                side.clear(name)
        self.both(submit)
        # Upstream works on what it sees every few seconds: what differs may only be late.
        for quiet_seconds in QUIET_SECONDS:
            if quiet_seconds > 2:
                # Its first labels may be those of another default workload, until the policy changes.
                self.sides[1].nudge(name)
            outcomes = self.both(lambda side: side.settle(name, quiet_seconds))  # pylint: disable=cell-var-from-loop
            found = self.differences(name, outcomes)
            if not found:
                break
        self.both(tidy)
        return outcomes, found

    def differences(self, name, outcomes):
        objects = self.both(lambda side: side.objects(name))
        found = compare.outcome_difference(*outcomes, self.accepted, self.used)
        found += compare.differences(*objects, self.accepted, outcomes[1][0] != "ready", self.used)
        return found

    def shrink(self, policy, found, required, limit):
        places = {where for where, _, _ in found}

        def still_fails(spec):
            _, differences = self.check(policy | {"spec": spec})
            return bool(places & {where for where, _, _ in differences})
        return shrink.shrink(policy["spec"], required, still_fails, limit)


def report(name, index, policy, outcomes, found, smallest):
    print(f"{name} #{index}: ours {outcomes[0][0]}, theirs {outcomes[1][0]}"
          + (f", {len(found)} differences" if found else ""), flush=True)
    if outcomes[1][0] != "ready":
        print(f"    theirs: {outcomes[1][1]}\n    ours:   {outcomes[0][1]}", flush=True)
    if found:
        print("    " + "\n    ".join(compare.lines(found)))
        label = "policy" if smallest is None else "smallest policy"
        print(f"    {label}: {policy['spec'] if smallest is None else smallest}", flush=True)


def run_cluster(file, comparison, generator, arguments, required):
    """How many policies ran, and {place: how often} for what differs, None for a policy as a whole."""
    ran, places = 0, collections.Counter()
    comparison.start()
    for index in range(arguments.policies):
        policy = generator.policy()
        if arguments.transitions:
            # What the pods that outlive their DaemonSet need stays with them.
            policy["spec"]["driver"].pop("useNvidiaDriverCRD", None)
        if arguments.only is not None and index != arguments.only:
            continue
        ran += 1
        outcomes, found = comparison.check(policy)
        smallest = None
        if found and arguments.shrink:
            smallest = comparison.shrink(policy, found, required, arguments.shrink)
        report(file.stem, index, policy, outcomes, found, smallest)
        places.update(where for where, _, _ in found)
        places[None] += bool(found)
    return ran, places


def other_side(arguments, oracle, flavour):
    if arguments.transitions:
        return Side("fresh", [arguments.ours, "operator"], (), *flavour)
    crds = sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))
    return Side("theirs", oracle_command(oracle), crds, *flavour)


def flavour_of(cluster):
    """Which kinds a cluster serves: those of OpenShift, those of the Prometheus operator."""
    return "openshift" in cluster, cluster.get("monitoring", True)


def run_flavour(files, flavour, arguments, accepted, schema, oracle):
    """All clusters of one kind of Kubernetes, on one pair of servers; also the rules that were needed."""
    ran, places, used = 0, collections.Counter(), set()
    with Side("ours", [arguments.ours, "operator"], (), *flavour, arguments.transitions) as ours, \
            other_side(arguments, oracle, flavour) as theirs:
        for file, cluster in files:
            generator = policies.Generator(schema, f"{arguments.seed}/{file.stem}", arguments.disable,
                                           arguments.density,
                                           arguments.mistakes if cluster.get("mistakes", True) else 0)
            rules = [rule for rule in accepted if file.stem in rule.get("clusters", [file.stem])]
            comparison = Comparison(ours, theirs, cluster, rules)
            more, found = run_cluster(file, comparison, generator, arguments, schema.get("required", []))
            ran += more
            places += found
            used |= comparison.used
    return ran, places, used


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--policies", type=int, default=50, help="how many policies for each cluster")
    parser.add_argument("--only", type=int, help="only the policy of this number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", nargs="*", help="names below clusters/ (default: all)")
    parser.add_argument("--disable", nargs="*", default=[], help="components that stay off in every policy")
    parser.add_argument("--density", type=float, default=0.25, help="how often an optional field is set")
    parser.add_argument("--mistakes", type=float, default=0.15,
                        help="how often a policy cannot be carried out as a whole")
    parser.add_argument("--shrink", type=int, default=0, metavar="TRIALS",
                        help="make each failing policy smaller, with at most so many trials")
    parser.add_argument("--transitions", action="store_true",
                        help="compare Pitcrew with itself: a changed policy with a new one")
    arguments = parser.parse_args()
    oracle = os.environ.get("PITCREW_ORACLE")
    if not oracle and not arguments.transitions:
        print("skipped: no oracle (PITCREW_ORACLE names none)")
        return SKIPPED
    accepted = TRANSITIONS if arguments.transitions else yaml.safe_load((HERE / "accepted.yaml").read_text())
    schema = yaml.safe_load((CRDS / "nvidia.com_clusterpolicies.yaml").read_text())
    schema = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    files = [(file, yaml.safe_load(file.read_text())) for file in sorted((HERE / "clusters").glob("*.yaml"))
             if not arguments.clusters or file.stem in arguments.clusters]
    ran, places, used = 0, collections.Counter(), set()
    for flavour in sorted({flavour_of(cluster) for _, cluster in files}):
        chosen = [(file, cluster) for file, cluster in files if flavour_of(cluster) == flavour]
        more, found, needed = run_flavour(chosen, flavour, arguments, accepted, schema, oracle)
        ran += more
        places += found
        used |= needed
    failures = places.pop(None, 0)
    for where, count in places.most_common():
        print(f"{count:4} x {where}")
    for rule in accepted:
        if rule["where"] not in used:
            print(f"not needed: {rule['where']}")
    print(f"{ran - failures} of {ran} policies equal on {len(files)} clusters")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
