#!/usr/bin/env python3
"""Does harm to the operator and to what it depends on, and looks whether the cluster ends as it should.

A real kube-apiserver and etcd, the operator as a process with a user of its own, a policy over a few nodes.
After each fault the operator has to bring the cluster to the very state that an undisturbed one makes, and the
server's audit log has to show that the operator has deleted nothing on the way.
"""

import argparse
import copy
import pathlib
import random
import signal
import sys
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "differential"))

import apiserver  # noqa: E402
import compare  # noqa: E402
import sides  # noqa: E402
from proxy import Proxy  # noqa: E402

POLICY = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
          "spec": yaml.safe_load((HERE / "policy.yaml").read_text())}
PATH = f"{sides.POLICIES}/cluster-policy"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RECOVERY_SECONDS = 120


class Failure(Exception):
    """What a scenario found."""


class Cluster(sides.Side):
    """An operator of our own with a server that writes down what it does."""

    def __init__(self, program):
        super().__init__("operator", [program, "operator"], server=apiserver.ApiServer(audit=True))
        self.expected = None

    def __enter__(self):
        super().__enter__()
        try:
            self.server.allow_everything()
            nodes = yaml.safe_load((HERE / "nodes.yaml").read_text())["nodes"]
            self.set_nodes(nodes)
            self.run()
            self.submit(copy.deepcopy(POLICY))
            self.finish()
            self.expected = self.objects("cluster-policy")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def run(self, port=None, arguments=()):
        """Starts the operator; by way of a proxy's port where one is given."""
        self.start(self.server.kubeconfig(apiserver.USER, port), arguments)

    def change(self, round_number):
        """A change of the policy that every DaemonSet has to follow."""
        self.merge({"spec": {"daemonsets": {"annotations": {"example.com/round": str(round_number)}}}})

    def restore(self):
        self.merge({"spec": {"daemonsets": {"annotations": None}}})

    def merge(self, patch):
        self.server.request("PATCH", PATH, patch, "application/merge-patch+json")

    def identities(self):
        """Which objects there are; one that has been deleted and made again is another."""
        return {f"{kind}/{item['metadata']['name']}": item["metadata"]["uid"] for kind, path in self.kinds.items()
                for item in self.server.get(path)["items"] if sides.is_owned(item, "cluster-policy")}

    def deletions(self):
        return [f"{verb} {resource} {name}" for verb, resource, name, status in self.server.requests()
                if verb.startswith("delete") and status < 300]

    def finish(self):
        outcome = self.settle("cluster-policy", 1, RECOVERY_SECONDS)
        if outcome[0] != "ready":
            raise Failure(f"the policy does not become ready: {outcome}\n{self.log_tail()}")

    def alive(self):
        if self.process.poll() is not None:
            raise Failure(f"the operator has ended with {self.process.returncode}\n{self.log_tail()}")

    def require_as_expected(self, deleted_before):
        """The policy's own state, reached without a deletion."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            self.finish()
            found = list(compare.differences(self.objects("cluster-policy"), self.expected, []))
            if not found:
                break
            if time.monotonic() > deadline:
                raise Failure("the cluster is not as an undisturbed operator leaves it:\n    "
                              + "\n    ".join(compare.lines(found)).replace("theirs", "expected"))
        self.alive()
        deleted = self.deletions()[deleted_before:]
        if deleted:
            raise Failure(f"the operator has deleted {', '.join(deleted)}")


def pause_until(condition, what, seconds=RECOVERY_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"not after {seconds} s: {what}")
        time.sleep(0.05)


def kill(cluster, rounds, rng):
    """kill -9 at any moment of a roll-out, the first one included."""
    cluster.stop()
    cluster.clear("cluster-policy")
    cluster.submit(copy.deepcopy(POLICY))
    identities = {}
    for number in range(rounds):
        # The first rounds begin to make the objects, the later ones change all DaemonSets.
        if len(identities) >= len(cluster.expected) / 2:
            cluster.change(number)
        cluster.run()
        time.sleep(rng.uniform(0.05, 1.2))
        cluster.alive()
        cluster.stop()
        now = cluster.identities()
        gone = [name for name, uid in identities.items() if now.get(name) != uid]
        if gone:
            raise Failure(f"gone or made anew after kill {number}: {gone}")
        identities = now
    cluster.restore()
    cluster.run()


def restart(cluster, rounds, rng):
    """The API server ends, in good order or not, while a change is being rolled out."""
    for number in range(rounds):
        cluster.change(number)
        time.sleep(rng.uniform(0, 0.3))
        cluster.server.stop_server(rng.choice([signal.SIGTERM, signal.SIGKILL]))
        time.sleep(rng.uniform(0, 2))
        cluster.alive()
        cluster.server.start_server()
        cluster.alive()
    cluster.restore()


def storage(cluster, rounds, rng):
    """etcd stands still during a roll-out: requests hang, and end in an error or late."""
    for number in range(rounds):
        cluster.change(number)
        time.sleep(rng.uniform(0, 0.3))
        cluster.server.pause_storage()
        try:
            time.sleep(rng.uniform(2, 8))
        finally:
            cluster.server.resume_storage()
        cluster.alive()
    cluster.restore()


def compaction(cluster, rounds, rng):
    """etcd forgets the past while the operator cannot see the present: its watches are refused, and what has
    been deleted and changed in the meantime is in no event."""
    cluster.stop()
    with Proxy(cluster.server.port) as proxy:
        cluster.run(proxy.port)
        cluster.finish()
        for number in range(rounds):
            proxy.shut()
            cluster.change(number)
            names = [item["metadata"]["name"] for item in cluster.server.get(cluster.kinds["ConfigMap"])["items"]
                     if sides.is_owned(item, "cluster-policy")]
            cluster.server.delete(f"{cluster.kinds['ConfigMap']}/{rng.choice(names)}")
            cluster.server.request(
                "PATCH", f"{cluster.kinds['ClusterRole']}/nvidia-driver", {"rules": []}, "application/merge-patch+json")
            cluster.server.compact()
            cluster.server.stop_server()
            cluster.server.start_server()
            cluster.restore()
            proxy.open()
            cluster.finish()
        cluster.stop()
    cluster.run()


def permissions(cluster, _rounds, _rng):
    """RBAC is taken away: all of it, from a running operator and from one that starts, and that of one kind."""
    cluster.server.revoke()
    pause_until(lambda: not allowed(cluster, "list", "nodes"), "the operator may not list nodes")
    cluster.change(1)
    time.sleep(2)
    cluster.alive()
    cluster.stop()
    cluster.run()
    time.sleep(2)
    cluster.alive()
    cluster.server.allow_everything()
    cluster.finish()
    # Reading everything, writing everything but DaemonSets: the rest goes on, and the status says what does not.
    # An operator may only grant what it has itself, so it keeps the right to pass rights on.
    cluster.server.grant("test-partial", [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
        {"apiGroups": ["", "nvidia.com", "node.k8s.io", "monitoring.coreos.com", "events.k8s.io"],
         "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]}])
    cluster.server.revoke()
    pause_until(lambda: not allowed(cluster, "patch", "daemonsets", "apps"), "the operator may not patch DaemonSets")
    cluster.merge({"spec": {"daemonsets": {"annotations": {"example.com/round": "2"}},
                            "dcgmExporter": {"service": {"type": "NodePort"}}}})
    service = f"{cluster.kinds['Service']}/nvidia-dcgm-exporter"
    pause_until(lambda: cluster.server.get(service)["spec"]["type"] == "NodePort",
                "the Service follows the policy although DaemonSets are forbidden")
    pause_until(lambda: "forbidden" in str(cluster.server.get(PATH).get("status")), "the status says what is forbidden")
    cluster.merge({"spec": {"dcgmExporter": {"service": None}}})
    cluster.server.allow_everything()
    cluster.restore()


def allowed(cluster, verb, resource, group=""):
    review = cluster.server.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": apiserver.USER, "resourceAttributes": {
            "verb": verb, "resource": resource, "group": group, "namespace": sides.NAMESPACE}}})
    return review["status"]["allowed"]


def monitors(cluster, rounds, _rng):
    """The definition of ServiceMonitors goes, with them, and comes back."""
    definition = sides.definition(*sides.MONITORING_CRDS[0])
    name = definition["metadata"]["name"]
    path = cluster.kinds.pop("ServiceMonitor")
    others = cluster.identities()
    for number in range(rounds):
        remove_definition(cluster, name)
        cluster.change(number)
        cluster.finish()
        cluster.alive()
        if cluster.identities() != others:
            raise Failure("objects of other kinds have been made anew")
        cluster.server.create_crd(definition)
        pause_until(lambda: cluster.server.get(path)["items"], "ServiceMonitors are back")
    cluster.kinds["ServiceMonitor"] = path
    cluster.restore()


def policies(cluster, _rounds, _rng):
    """The definition of ClusterPolicies goes, with the policy, and both come back."""
    definition = yaml.safe_load((sides.CRDS / "nvidia.com_clusterpolicies.yaml").read_text())
    before = cluster.identities()
    remove_definition(cluster, definition["metadata"]["name"], may_return=True)
    time.sleep(2)
    cluster.alive()
    if cluster.identities() != before:
        raise Failure("objects of the lost policy have been made anew or deleted by the operator")
    try:
        cluster.server.create_crd(definition)
    except apiserver.ApiError as error:
        if error.code != 409:  # the operator has made it again itself
            raise
    pause_until(lambda: can_submit(cluster), "the policy can be made again")
    cluster.finish()
    if cluster.identities() != before:
        raise Failure("objects have been made anew for the new policy")


def can_submit(cluster):
    try:
        cluster.submit(copy.deepcopy(POLICY))
        return True
    except apiserver.ApiError as error:
        if error.code == 409:
            return True
        if error.code in (404, 405, 429, 500):
            return False
        raise


def remove_definition(cluster, name, may_return=False):
    uid = cluster.server.get(f"{DEFINITIONS}/{name}")["metadata"]["uid"]
    cluster.server.delete(f"{DEFINITIONS}/{name}")

    def gone():
        try:
            now = cluster.server.get(f"{DEFINITIONS}/{name}")
        except apiserver.ApiError as error:
            if error.code == 404:
                return True
            raise
        return may_return and now["metadata"]["uid"] != uid
    pause_until(gone, f"{name} is gone")


def network(cluster, rounds, rng):
    """A slow connection that is reset again and again during a roll-out."""
    cluster.stop()
    with Proxy(cluster.server.port) as proxy:
        proxy.delay = 0.02
        cluster.run(proxy.port)
        for number in range(rounds):
            cluster.change(number)
            for _ in range(5):
                time.sleep(rng.uniform(0.05, 0.8))
                proxy.cut()
            cluster.alive()
        proxy.delay = 0
        cluster.restore()
        cluster.finish()
        cluster.stop()
    cluster.run()


def silence(cluster, _rounds, _rng):
    """The connection dies without a word, while something still acknowledges packets: the renewal of the lease
    is the first to get no answer, and the next one has to go over a connection that works."""
    cluster.stop()
    with Proxy(cluster.server.port) as proxy:
        cluster.run(proxy.port, ["--leader-elect", f"--leader-elect-namespace={sides.NAMESPACE}"])
        cluster.finish()
        proxy.forget()
        cluster.change(1)
        daemonset = f"{cluster.kinds['DaemonSet']}/nvidia-operator-validator"
        pause_until(lambda: "example.com/round" in cluster.server.get(daemonset)["metadata"]["annotations"],
                    "the change is seen on a new connection")
        cluster.alive()
        cluster.restore()
        cluster.finish()
        cluster.stop()
    cluster.run()


# Name -> function and how many rounds it has by default.
SCENARIOS = {"kill": (kill, 8), "restart": (restart, 2), "storage": (storage, 2), "compaction": (compaction, 1),
             "permissions": (permissions, 1), "monitors": (monitors, 1), "policies": (policies, 1),
             "network": (network, 3), "silence": (silence, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(sides.ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--scenarios", nargs="*", choices=sorted(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, help="how often each fault happens (default: a few times)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    failed = 0
    with Cluster(arguments.ours) as cluster:
        for name in arguments.scenarios:
            scenario, rounds = SCENARIOS[name]
            rounds = arguments.rounds or rounds
            deleted, started = len(cluster.deletions()), time.monotonic()
            try:
                scenario(cluster, rounds, random.Random(f"{arguments.seed}/{name}"))
                cluster.require_as_expected(deleted)
            except Failure as problem:
                failed += 1
                print(f"{name}: FAILED: {problem}", flush=True)
                break
            print(f"{name}, {rounds} times: as it should be, after {time.monotonic() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
