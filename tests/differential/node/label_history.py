"""A Node object whose labels somebody changes, and what its labels were since."""

import http.client
import json
import ssl
import threading
import time

DEPLOY = "nvidia.com/gpu.deploy."
# A change takes upstream ten seconds and more: it asks about pods, selector by selector.
CHANGE_SECONDS, QUIET_SECONDS = 90, 1.5


class LabelHistory:
    """`state` is the label that tells how a change went, `paused` what paused operands' labels have, `seconds` how long
    one may take."""

    def __init__(self, port, token, node, state, paused, seconds=CHANGE_SECONDS):
        self.seconds = seconds
        self.port, self.token, self.node, self.state, self.paused = port, token, node, state, paused
        self.changed, self.seen = threading.Condition(), []
        threading.Thread(target=self._watch, daemon=True).start()

    def _connect(self):
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context)

    def _headers(self, kind="application/json"):
        return {"Authorization": f"Bearer {self.token}", "Content-Type": kind}

    def _watch(self):
        connection = self._connect()
        connection.request("GET", f"/api/v1/nodes?watch=true&fieldSelector=metadata.name%3D{self.node}",
                           headers=self._headers())
        for line in connection.getresponse():
            labels = json.loads(line)["object"]["metadata"].get("labels", {})
            with self.changed:
                self.seen.append((time.monotonic(), labels))
                self.changed.notify_all()

    def set_labels(self, labels):
        connection = self._connect()
        connection.request("PATCH", f"/api/v1/nodes/{self.node}", json.dumps({"metadata": {"labels": labels}}),
                           self._headers("application/merge-patch+json"))
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(answer.read())

    def settle(self, process, start):
        """What the labels were from `start` on until the change has ended and nothing follows, or the process has."""
        deadline = time.monotonic() + self.seconds
        with self.changed:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    last = self.seen[-1][1] if self.seen else {}
                    raise TimeoutError(f"node {self.node} has not settled in {self.seconds} s: {self.state} is "
                                       f"{last.get(self.state)}, labels {last}")
                labels, quiet = ({}, 0)
                if self.seen:
                    labels, quiet = self.seen[-1][1], time.monotonic() - self.seen[-1][0]
                done = labels.get(self.state) in ("success", "failed") and self.paused not in labels.values()
                if done and len(self.seen) > start and quiet > QUIET_SECONDS:
                    break
                self.changed.wait(0.2)
            return [labels for _, labels in self.seen[start:]]


def without_repeats(values):
    return [value for index, value in enumerate(values) if index == 0 or values[index - 1] != value]


def told(history, state):
    """The values of the state, and of each operand's label, in order."""
    deploy = {name for labels in history for name in labels if name.startswith(DEPLOY)}
    return {"states": [value for value in without_repeats([labels.get(state) for labels in history]) if value],
            "operands": {name.removeprefix(DEPLOY): without_repeats([labels.get(name) for labels in history])
                         for name in sorted(deploy)}}
