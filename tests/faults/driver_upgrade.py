#!/usr/bin/env python3
"""Kills the operator in every state of an upgrade of the driver, and looks whether the nodes end as they do undisturbed.

A real kube-apiserver and etcd, the operator as a process, pods played (tests/differential/upgrade_player.py). Each time a
node comes into the state, up to a few times, the operator is killed that moment (SIGKILL) and started again. Every node has
to go through the same states in the same order as without, with the same cordons, annotations and pods at the end.
"""

import argparse
import pathlib
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "differential"))

import driver_upgrade as upgrade  # noqa: E402
import upgrade_compare  # noqa: E402
from sides import ROOT, Side  # noqa: E402
from upgrade_player import History, Played  # noqa: E402

STATES = ("upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required",
          "pod-restart-required", "validation-required", "upgrade-failed", "uncordon-required", "upgrade-done")
KILLS = 3  # for each state
# For a roll-out, which takes a few seconds where nothing else has the processors.
SECONDS = 600


def node(name, **more):
    return {"name": name, "cordoned": False, "skip": False, "pod": "controlled", "other": True} | more


# Its nodes go through every state: one is cordoned from the beginning, one has a pod that only a drain takes, and the driver
# of one does not start at first.
CASE = {"change": "version", "objects": False,
        "nodes": [node("plain"), node("cordoned", cordoned=True), node("drained", pod="bare"),
                  node("late", driver="recovers", pod="none")],
        "upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 0, "maxUnavailable": "100%",
                          "podDeletion": {"force": False, "deleteEmptyDir": False, "timeoutSeconds": 300},
                          "drain": {"enable": True, "force": True, "deleteEmptyDir": True, "timeoutSeconds": 300}}}


class Killer:
    """Kills the operator each time a node comes into the state, and starts it again."""

    def __init__(self, side, state):
        self.side, self.state, self.kills, self.armed = side, state, 0, False
        self.mutex = threading.Lock()

    def told(self, state):
        with self.mutex:
            if self.armed and state == self.state and self.kills < KILLS:
                self.kills += 1
                self.side.stop()
                self.side.start()


def roll_out(side, state):
    """How the nodes end, and how often the operator was killed."""
    played, killer = Played(side, CASE), Killer(side, state)
    played.fill()
    history = History(side.server, killer.told)
    side.start()
    upgrade.submit(side, CASE)
    try:
        played.wait(lambda states: all(one == "upgrade-done" for one in states.values()), SECONDS)
        killer.armed = True
        upgrade.roll_out(played, history, SECONDS)
        return played.result(history), killer.kills
    finally:
        killer.armed = False
        with killer.mutex:
            side.stop()
        played.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=str(ROOT / "build/release/bin/pitcrew"), help="the pitcrew program")
    parser.add_argument("--rounds", type=int, default=1, help="how often for each state")
    parser.add_argument("--states", nargs="*", choices=STATES, default=STATES)
    arguments = parser.parse_args()
    failures = 0
    with Side("operator", [arguments.ours, "operator"]) as side:
        expected, _ = roll_out(side, None)
        unseen = set(STATES) - {state for one in expected["nodes"].values() for state in one["states"]}
        if unseen:
            print(f"no node comes into {sorted(unseen)}: {expected}")
            return 1
        for number in range(arguments.rounds):
            for state in arguments.states:
                found, kills = roll_out(side, state)
                wrong = upgrade_compare.differences(CASE, expected, found)[0] + ([] if kills else ["it was not killed"])
                print(f"round {number}, {state}: killed {kills} times, {'differs' if wrong else 'the same'}", flush=True)
                if wrong:
                    failures += 1
                    print("    " + "\n    ".join(wrong).replace("other", "undisturbed").replace("ours ", "killed"),
                          flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
