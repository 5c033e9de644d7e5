#!/usr/bin/env python3
"""Rolls a new version of the driver out over many nodes, on a real kube-apiserver: pods that the operator deletes come
back at once, at the new version and ready, so that what is measured is the operator and the server.

Prints: seconds from the change to the last node that is done, or how many are done when the time is over; requests,
processor seconds and resident memory of the operator in that time. With $PITCREW_ORACLE (see
tests/differential/run.py) another operator is measured in the same run.
"""

import argparse
import http.client
import json
import os
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "differential"))

import apiserver  # noqa: E402
import upgrade_player as upgrade  # noqa: E402
from operator_scale import by_verb, memory, processor_seconds  # noqa: E402
from sides import Side, oracle_command  # noqa: E402

VERSION = "580.1.2"
DONE = "upgrade-done"


class Returning(threading.Thread):
    """What the DaemonSet controller and the kubelets do: a driver pod that is gone comes back at the version of now."""

    def __init__(self, played):
        super().__init__(daemon=True)
        self.played, self.trouble = played, None
        server = played.server
        version = server.get(f"{upgrade.PODS}?limit=1")["metadata"]["resourceVersion"]
        self.connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server._context)
        self.connection.request("GET", f"{upgrade.PODS}?watch=1&resourceVersion={version}",
                                headers={"Authorization": "Bearer admin"})
        self.answer = self.connection.getresponse()
        self.start()

    def run(self):
        try:
            for line in self.answer:
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                if event["type"] == "DELETED" and name.startswith("driver-"):
                    self.played.create_driver_pod(name.removeprefix("driver-"))
                elif event["type"] == "ADDED" and name.startswith(upgrade.IMAGE_CHECK):
                    self.played.end_image_check(event["object"])
        except (OSError, ValueError, http.client.HTTPException, apiserver.ApiError) as trouble:
            self.trouble = trouble  # also: the server has ended


def case_of(count, parallel):
    return {"nodes": [{"name": f"gpu-{number:04}", "cordoned": False, "skip": False, "pod": "controlled", "other": False}
                      for number in range(count)],
            "change": "version", "objects": False,
            "upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": parallel, "maxUnavailable": "100%",
                              "podDeletion": {"force": True, "deleteEmptyDir": True}, "drain": {"enable": False}}}


def all_done(played):
    return all(state == DONE for state in played.states().values())


def prepare(side, count, parallel):
    """A cluster whose nodes all have the driver's first version."""
    played = upgrade.Played(side, case_of(count, parallel))
    played.fill()
    side.server.allow_everything()
    side.start(side.server.kubeconfig(apiserver.USER))
    spec = {**upgrade.POLICY, "sandboxWorkloads": {"enabled": False},
            "driver": {**upgrade.POLICY.get("driver", {}), "enabled": True, "useNvidiaDriverCRD": False,
                       "repository": "nvcr.io/nvidia", "image": "driver", "version": VERSION,
                       "upgradePolicy": played.case["upgradePolicy"]}}
    side.submit({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
                 "spec": spec})
    deadline = time.monotonic() + 900
    while played.play() is None or not all_done(played):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{side.name}: not all nodes have the first version\n{side.log_tail()}")
        time.sleep(1)
    return played


def measure(side, count, parallel, minutes):
    played = prepare(side, count, parallel)
    side.wait_until_quiet(3, 60)
    returning, history = Returning(played), upgrade.History(side.server)
    requests, processor = len(list(side.server.requests())), processor_seconds(side.process.pid)
    begin = time.monotonic()
    played.change()
    played.play()

    def done():
        return sum(1 for states in list(history.states.values()) if len(states) > 2 and states[-1] == DONE)
    while done() < count and time.monotonic() - begin < 60 * minutes:
        if returning.trouble or side.process.poll() is not None:
            raise RuntimeError(f"{side.name}: {returning.trouble or 'the operator ended'}\n{side.log_tail()}")
        time.sleep(0.05)
    seconds = time.monotonic() - begin
    verbs = by_verb(list(side.server.requests())[requests:])
    print(f"{side.name}, {count} nodes, {parallel} at a time")
    print(f"  nodes done                    {done():8} in {seconds:.1f} s"
          f"{'' if done() == count else ' (stopped then)'}")
    print(f"  requests                      {sum(verbs.values()):8} ({', '.join(f'{k} {v}' for k, v in verbs.most_common())})")
    print(f"  processor                     {processor_seconds(side.process.pid) - processor:8.1f} s")
    print(f"  resident memory, peak         {memory(side.process.pid, 'VmHWM'):8.1f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=upgrade.ROOT / "build/release",
                        help="the build tree whose pitcrew is measured")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--parallel", type=int, default=50, help="maxParallelUpgrades")
    parser.add_argument("--minutes", type=float, default=10, help="stop after this time, done or not")
    arguments = parser.parse_args()
    contestants = [("pitcrew", [str(arguments.build.resolve() / "bin/pitcrew"), "operator"], ())]
    if oracle := os.environ.get("PITCREW_ORACLE"):
        contestants.append(("other", oracle_command(oracle), sorted(pathlib.Path(oracle, "crds").glob("*.yaml"))))
    for name, command, crds in contestants:
        with Side(name, command, crds, server=apiserver.ApiServer(audit=True)) as side:
            measure(side, arguments.nodes, arguments.parallel, arguments.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
