#!/usr/bin/env python3
"""One config-manager on one case: reads {"case", "program", "node", "kubeconfig", "port", "token"} from standard input,
and writes what was linked, how often the process was told and whether the program has ended after each step to standard
output, as JSON. To be run in a process namespace of its own.
"""

import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time

LABEL = "nvidia.com/device-plugin.config"
PROCESS = "the-process-to-tell"
# Nothing follows what has been quiet for so long; a start takes longer.
QUIET_SECONDS, START_SECONDS = 0.7, 3.0
# The process that is told: writes a line for each signal.
LISTENER = """
import signal, sys
def told(number, frame):
    with open(sys.argv[1], "a") as file:
        file.write(f"{number}\\n")
for number in (signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, told)
print("listens", flush=True)
while True:
    signal.pause()
"""


class Side:
    """The program on a case, with a folder and a process to tell of its own."""

    def __init__(self, request, folder):
        self.request, self.case = request, request["case"]
        self.source, self.link, self.told = folder / "source", folder / "link", folder / "told"
        self.log = folder / "log"

    def run(self):
        """What is seen after the start and after each change, by the name of the step."""
        self.source.mkdir()
        for name in self.case["files"]:
            path = self.source / name
            if name.endswith("/"):
                path.mkdir()
            else:
                path.write_text(f"# {name}\n")
        listener = subprocess.Popen([PROCESS if self.case["listens"] else "somebody", "-c", LISTENER, str(self.told)],
                                    executable=sys.executable, stdout=subprocess.PIPE)
        listener.stdout.readline()
        places = {"{source}": str(self.source), "{link}": str(self.link)}
        options = {name: places.get(value, value) for name, value in self.case["options"].items()}
        environment = {"PATH": "/usr/bin:/bin", "NO_PROXY": "*", "KUBECONFIG": self.request["kubeconfig"],
                       "NODE_NAME": self.request["node"], "NODE_LABEL": LABEL, "PROCESS_TO_SIGNAL": PROCESS} | options
        with open(self.log, "wb") as log:
            program = subprocess.Popen(["config-manager"], executable=self.request["program"], env=environment,
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            return self._steps(program)
        finally:
            for one in (program, listener):
                one.kill()
                one.wait()
            listener.stdout.close()

    def _steps(self, program):
        steps = {}
        start = "start" if self.case["label"] is None else "start with the label"
        steps[start] = self._seen(program, None, START_SECONDS)
        for index, change in enumerate(self.case["changes"]):
            if steps[list(steps)[-1]]["ended"] is not None:
                break
            before = steps[list(steps)[-1]]["signals in all"]
            if "edit" in change:
                (self.source / change["edit"]).write_text(f"# edited {index}\n")
                name = "edit"
            else:
                self._set_label(change["label"])
                name = f"label {change['label']!r}"
            steps[f"change {index} {name}"] = self._seen(program, before, QUIET_SECONDS)
        return steps

    def _set_label(self, value):
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        connection = http.client.HTTPSConnection("127.0.0.1", self.request["port"], context=context)
        connection.request("PATCH", f"/api/v1/nodes/{self.request['node']}",
                           json.dumps({"metadata": {"labels": {LABEL: value}}}),
                           {"Authorization": f"Bearer {self.request['token']}",
                            "Content-Type": "application/merge-patch+json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(answer.read())
        connection.close()

    def _seen(self, program, before, least):
        """Once nothing has happened for a while."""
        began = quiet_since = time.monotonic()
        last = None
        while True:
            now = (os.readlink(self.link) if self.link.is_symlink() else None,
                   len(self.told.read_text().split()) if self.told.exists() else 0, program.poll())
            if now != last:
                last, quiet_since = now, time.monotonic()
            passed = time.monotonic()
            if now[2] is not None or (passed - quiet_since > QUIET_SECONDS and passed - began > least):
                break
            time.sleep(0.02)
        linked, signals, ended = last
        return {"linked": linked and linked.replace(str(self.source), ""), "signals": signals - (before or 0),
                "signals in all": signals, "ended": ended}


def main():
    with tempfile.TemporaryDirectory(prefix="config-manager-", dir="/tmp") as folder:
        side = Side(json.load(sys.stdin), pathlib.Path(folder))
        steps = side.run()
        print(json.dumps({"steps": steps, "log": side.log.read_text(errors="replace")[-1500:]}))


if __name__ == "__main__":
    main()
