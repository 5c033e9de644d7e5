"""A small client of the cluster's own API server: plain HTTPS with the administrator's certificate."""

from __future__ import annotations

import base64
import http.client
import json
import os
import pathlib
import ssl
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator

from cluster.errors import ClusterError


class ApiError(ClusterError):
    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Api:
    def __init__(self, kubeconfig: pathlib.Path):
        configuration = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster = configuration["clusters"][0]["cluster"]
        user = configuration["users"][0]["user"]
        self._context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.TemporaryDirectory() as folder:  # ssl takes a client's key from files only
            certificate, key = f"{folder}/crt", f"{folder}/key"
            for path, data in ((certificate, "client-certificate-data"), (key, "client-key-data")):
                with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as stream:
                    stream.write(base64.b64decode(user[data]))
            self._context.load_cert_chain(certificate, key)
        address = urllib.parse.urlsplit(cluster["server"])
        self._host, self._port = address.hostname, address.port or 443

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._context, timeout=timeout)

    def request(self, method: str, path: str, body: dict | None = None, timeout: float = 30,
                content_type: str = "application/json") -> bytes:
        connection = self._connect(timeout)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Content-Type": content_type, "Accept": "application/json"})
            response = connection.getresponse()
            data = response.read()
        except OSError as error:
            raise ApiError(0, f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            try:
                message = json.loads(data).get("message", "")
            except (ValueError, AttributeError):
                message = data[:200].decode(errors="replace")
            raise ApiError(response.status, f"{method} {path}: {response.status} {message}")
        return data

    def get(self, path: str) -> dict:
        return json.loads(self.request("GET", path))

    def find(self, path: str) -> dict | None:
        """The object, or None when the server says that there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: dict) -> dict:
        return json.loads(self.request("POST", path, body))

    def delete(self, path: str, own_grace: bool = False):
        """At once, or with the time that each pod has for its end."""
        options = {"propagationPolicy": "Background"} if own_grace else {
            "propagationPolicy": "Background", "gracePeriodSeconds": 0}
        try:
            self.request("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise

    def log(self, namespace: str, pod: str, **options: str) -> str:
        """`options` as the API has them: container, tailLines."""
        query = urllib.parse.urlencode(options)
        return self.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log?{query}").decode(errors="replace")

    def watch(self, path: str, seconds: float, selector: str = "") -> Iterator[tuple[str, dict]]:
        """Every object now (as ADDED) and every change, until `seconds` have passed; then it just ends.

        A lost connection or an expired version begins again with a new list: an object may come twice.
        """
        deadline = time.monotonic() + seconds
        query = {"fieldSelector": selector} if selector else {}
        while time.monotonic() < deadline:
            listed = self.get(f"{path}?{urllib.parse.urlencode(query)}")
            for item in listed["items"]:
                yield "ADDED", item
            watch = {**query, "watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
            connection = self._connect(max(0.1, deadline - time.monotonic()))
            try:
                connection.request("GET", f"{path}?{urllib.parse.urlencode(watch)}", headers={"Accept": "application/json"})
                response = connection.getresponse()
                if response.status != 200:
                    raise ApiError(response.status, f"watch {path}: {response.status} {response.read()[:200]!r}")
                while line := response.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    yield event["type"], event["object"]
                    if connection.sock is not None:
                        connection.sock.settimeout(max(0.1, deadline - time.monotonic()))
            except (TimeoutError, ConnectionError, http.client.HTTPException):
                continue
            finally:
                connection.close()

    def wait(self, path: str, name: str, seconds: float, satisfied: Callable[[dict], bool]) -> dict | None:
        """Waits until the named object satisfies the predicate. None when it has not within `seconds`."""
        for kind, item in self.watch(path, seconds, f"metadata.name={name}"):
            if kind != "DELETED" and satisfied(item):
                return item
        return None

    def wait_gone(self, path: str, name: str, seconds: float):
        """Waits until there is no object of that name."""
        if self.find(f"{path}/{name}") is None:
            return
        for kind, _ in self.watch(path, seconds, f"metadata.name={name}"):
            if kind == "DELETED" or self.find(f"{path}/{name}") is None:
                return
        raise ClusterError(f"{path}/{name} is still there after {seconds:.0f} s")


def condition(item: dict, kind: str) -> dict | None:
    for entry in item.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry
    return None


def has_condition(item: dict, kind: str) -> bool:
    entry = condition(item, kind)
    return entry is not None and entry["status"] == "True"
