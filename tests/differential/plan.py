#!/usr/bin/env python3
"""Holds `pitcrew plan` against the operator itself, over random valid policies.

Before each policy, all objects of a real API server go into a file, and the plan is made from that file;
then the operator gets the policy. What it has made when it has finished must be what was planned: every
object, every label of a node, nothing more, and what was to be deleted is gone. A plan over the objects
that stand then has to say that nothing is left to do. Policies follow each other as changes of one policy.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import policies  # noqa: E402
import run  # noqa: E402
import sides  # noqa: E402

# Read by the plan beside what the operator makes.
SOURCES = ["/api/v1/nodes", f"/api/v1/namespaces/{sides.NAMESPACE}/secrets", "/api/v1/namespaces", sides.POLICIES,
           "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]
OPENSHIFT = ["/apis/config.openshift.io/v1/clusterversions", "/apis/config.openshift.io/v1/proxies",
             "/apis/image.openshift.io/v1/namespaces/openshift/imagestreams"]
# Left alone when a policy names a ConfigMap of the user's in their place.
LEFT_ALONE = {"ConfigMap/default-mig-parted-config", "ConfigMap/default-gpu-clients",
              "ConfigMap/default-vgpu-devices-config"}
# What drivers keep under NVIDIADriver objects, which take nothing but their DaemonSets from a policy.
DELEGATED = {"state-driver", "state-vgpu-manager"}
# A node loses its labels only when its GPU has been gone for 15 seconds.
GRACE_SECONDS = 17
SUFFIXES = {"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20,
            "Gi": 2**30, "Ti": 2**40}


def quantity(value):
    """What 1500m, 1.5 and 1.5e0 have in common."""
    text = str(value)
    digits = text.rstrip("numkKMGTi")
    return round(float(digits) * SUFFIXES[text[len(digits):]], 9)


def says_nothing(value):
    return value is None or value in ("", [], {})


def missing(planned, live, path=""):
    """Places at which `live` is not as planned. What only it has are the server's defaults."""
    if isinstance(planned, dict) and isinstance(live, dict):
        for key, value in planned.items():
            place = f"{path}.{key}"
            if path.endswith((".limits", ".requests")) and key in live:
                if quantity(value) != quantity(live[key]):
                    yield place
            elif key in live:
                yield from missing(value, live[key], place)
            elif not says_nothing(value):
                yield place
    elif isinstance(planned, list) and isinstance(live, list) and len(planned) == len(live):
        for index, (a, b) in enumerate(zip(planned, live)):
            yield from missing(a, b, f"{path}[{index}]")
    elif planned != live and not (says_nothing(planned) and live is None):
        yield path


def identity(item):
    return f"{item['kind']}/{item['metadata']['name']}"


class PlanCheck:
    def __init__(self, side, program, folder):
        self.side, self.program, self.folder = side, program, folder

    def standing(self):
        """Every object that a plan looks at, as the server has it."""
        # Without a garbage collector, what is deleted so that its pods stay waits for ever.
        paths = SOURCES + list(self.side.kinds.values()) + (OPENSHIFT if self.side.openshift else [])
        items = []
        for path in paths:
            answer = self.side.server.get(path)
            for item in answer["items"]:
                if "deletionTimestamp" in item["metadata"]:
                    continue
                item.setdefault("apiVersion", answer["apiVersion"])
                item.setdefault("kind", answer["kind"].removesuffix("List"))
                items.append(item)
        return items

    def plan(self, items, *arguments):
        """Exit status, output and errors of a plan over these objects."""
        file = self.folder / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        ran = subprocess.run(
            [self.program, "plan", "--cluster", str(file), "-n", sides.NAMESPACE, *arguments], check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=sides.environment(self.folder / "none"))
        if ran.returncode not in (0, 1, 2, 3):
            raise RuntimeError(f"pitcrew plan ended with {ran.returncode}: {ran.stderr}")
        return ran.returncode, ran.stdout, ran.stderr

    def owned(self, items, name):
        return {identity(item): item for item in items if sides.is_owned(item, name)}

    def expected_to_stay(self, item, policy):
        state = item["metadata"].get("labels", {}).get("nvidia.com/gpu-operator.state")
        return identity(item) in LEFT_ALONE or (
            policy["spec"]["driver"].get("useNvidiaDriverCRD") and state in DELEGATED)

    def loses_gpu(self, planned, before):
        live = {identity(item): item for item in before}
        present = "nvidia.com/gpu.present"
        return any(where in live and item["metadata"].get("labels", {}).get(present) == "false" and
                   live[where]["metadata"].get("labels", {}).get(present) == "true"
                   for where, item in planned.items() if item["kind"] == "Node")

    def check(self, policy):
        """What is not as it was planned, a line each."""
        name = policy["metadata"]["name"]
        file = self.folder / "policy.yaml"
        file.write_text(json.dumps(policy))
        before = self.standing()
        status, output, errors = self.plan(before, "-f", str(file), "-o", "json")
        planned = {identity(item): item for item in json.loads(output)["items"]}
        _, table, _ = self.plan(before, "-f", str(file), "-o", "table")
        doomed = {f"{kind}/{place.split('/')[-1]}" for action, kind, place in
                  (line.split()[:3] for line in table.splitlines()[1:] if len(line.split()) > 2) if action == "delete"}

        self.side.submit(policy)
        outcome = self.side.settle(name, GRACE_SECONDS if self.loses_gpu(planned, before) else 2)
        if "is invalid: " in outcome[1]:
            # The schema lets it pass, and the server refuses the pods: no plan can know.
            return "refused", []
        after = self.standing()
        live = {identity(item): item for item in after}
        problems = [f"{where} was not deleted" for where in sorted(doomed & set(live))]
        for where, item in planned.items():
            if where not in live:
                problems.append(f"{where} was planned and not made")
                continue
            if item["kind"] == "Node":
                for member in ("labels", "annotations"):
                    if item["metadata"].get(member) != live[where]["metadata"].get(member):
                        problems.append(f"{where} {member}: planned {item['metadata'].get(member)}, "
                                        f"found {live[where]['metadata'].get(member)}")
                continue
            item["metadata"]["ownerReferences"] = [r | {"uid": None} for r in
                                                   item["metadata"].get("ownerReferences", [])]
            found = live[where]
            for reference in found["metadata"].get("ownerReferences", []):
                reference["uid"] = None
            # The first policy has no uid before it is stored, and the hash covers that.
            item["metadata"].get("annotations", {}).pop("nvidia.com/last-applied-hash", None)
            problems += [f"{where}{place} is not as planned" for place in missing(item, found)]
        # An operand that cannot be rendered keeps what it had; so nothing is unplanned there.
        made = set(self.owned(after, name)) - set(self.owned(before, name))
        problems += [f"{where} was made and not planned" for where in sorted(made - set(planned))]
        if status not in (1, 2):
            kept = {where for where, item in self.owned(after, name).items()
                    if where not in planned and not self.expected_to_stay(item, policy)}
            problems += [f"{where} stands and was not planned" for where in sorted(kept)]
        again, difference, errors_again = self.plan(self.standing(), "-o", "diff")
        if "Plan: 0 to create, 0 to change, 0 to delete" not in difference or again == 2:
            problems.append(f"afterwards the plan says {again}: {difference}{errors_again}")
        if (outcome[0] == "failed") != (status in (1, 2)):
            problems.append(f"outcome {outcome}, and the plan said {status}: {errors}")
        return outcome[0], problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(sides.ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--policies", type=int, default=20, help="how many policies for each cluster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", nargs="*", help="names below clusters/ (default: all)")
    parser.add_argument("--density", type=float, default=0.25, help="how often an optional field is set")
    parser.add_argument("--mistakes", type=float, default=0.15,
                        help="how often a policy cannot be carried out as a whole")
    arguments = parser.parse_args()
    schema = yaml.safe_load((sides.CRDS / "nvidia.com_clusterpolicies.yaml").read_text())
    schema = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    failures = ran = 0
    for file in sorted((HERE / "clusters").glob("*.yaml")):
        if arguments.clusters and file.stem not in arguments.clusters:
            continue
        cluster = yaml.safe_load(file.read_text())
        generator = policies.Generator(schema, f"{arguments.seed}/{file.stem}", [], arguments.density,
                                       arguments.mistakes)
        with sides.Side("ours", [arguments.ours, "operator"], (), *run.flavour_of(cluster), True) as side, \
                tempfile.TemporaryDirectory(prefix="pitcrew-plan-") as folder:
            side.set_cluster(cluster)
            side.set_nodes(cluster["nodes"])
            side.start()
            check = PlanCheck(side, arguments.ours, pathlib.Path(folder))
            for index in range(arguments.policies):
                outcome, problems = check.check(generator.policy())
                ran += 1
                failures += bool(problems)
                print(f"{file.stem} #{index}: {outcome}", *problems, sep="\n    ", flush=True)
    print(f"{ran - failures} of {ran} policies as planned")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
