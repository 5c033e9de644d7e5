"""The kubelet as a program of its own (kubelet/main.cc), and what it has heard so far."""

import json
import queue
import subprocess
import threading
import time


class KubeletEnded(Exception):
    pass


class Kubelet:
    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answers, self._heard = queue.Queue(), threading.Condition()
        self.registered, self.lists, self.closed = {}, {}, {}
        self._serving = False
        threading.Thread(target=self._read, daemon=True).start()
        self.wait(lambda: self._serving, 10)

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            with self._heard:
                if "registered" in message:
                    registration = message["registered"]
                    self.registered[registration.pop("resource")] = registration
                elif "list" in message:
                    self.lists.setdefault(message["resource"], []).append(message["list"])
                elif "closed" in message:
                    self.closed[message["resource"]] = message["closed"]
                elif "serving" in message:
                    self._serving = True
                else:
                    self._answers.put(message)
                self._heard.notify_all()

    def wait(self, done, seconds, ended=lambda: False):
        """Until `done()`, or `ended()`, or for so long. Whether it is done."""
        deadline = time.monotonic() + seconds
        with self._heard:
            while not done() and not ended() and time.monotonic() < deadline:
                self._heard.wait(0.05)
            return done()

    def listed(self, resource):
        """The newest list of the resource."""
        return self.lists[resource][-1]

    def ask(self, resource, seconds=60, **question):
        self.process.stdin.write(json.dumps({"resource": resource} | question) + "\n")
        self.process.stdin.flush()
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            raise KubeletEnded(f"no answer to {question}") from None

    def end(self):
        self.process.kill()
        self.process.wait()
