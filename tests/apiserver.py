"""A real kube-apiserver with its own etcd, for tests in Python: loopback, free ports, a temporary folder.

    with ApiServer() as server:
        server.create("/api/v1/namespaces", {...})

Nothing of it outlives the `with` block, nor the process: the kernel ends both programs with it.
Programs are looked for in the folder $PITCREW_PROGRAMS, in PATH and in $PITCREW_CACHE/programs/*.
"""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

_START_SECONDS = 300
_ADMIN_TOKEN = "admin"


def find_program(name):
    """The path of a program, or an error that says where it was looked for."""
    cache = os.environ.get("PITCREW_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pitcrew")
    folders = [os.environ["PITCREW_PROGRAMS"]] if os.environ.get("PITCREW_PROGRAMS") else []
    folders += [folder for folder in os.environ.get("PATH", "").split(":") if folder]
    folders += sorted(map(str, pathlib.Path(cache, "programs").glob("*")), reverse=True)
    found = shutil.which(name, path=":".join(folders))
    if not found:
        raise FileNotFoundError(f"{name} is neither in $PITCREW_PROGRAMS nor in PATH nor below {cache}/programs; "
                                "`make up` builds it")
    return found


class ApiError(Exception):
    """An answer of the server that is not a success: `code` and the Status object."""

    def __init__(self, code, status):
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code = code
        self.status = status


def _die_with_parent():
    # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class ApiServer:
    """`user` in the request methods impersonates that user; by default requests come from an administrator."""

    def __init__(self):
        self._folder = None
        self._processes = []
        self.port = 0

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="pitcrew-apiserver-")
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = []
        self._folder.cleanup()

    @property
    def folder(self):
        return pathlib.Path(self._folder.name)

    def _spawn(self, name, *arguments):
        with open(self.folder / f"{name}.log", "wb") as log:
            self._processes.append(subprocess.Popen(
                [find_program(name), *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent))

    def _start(self):
        # Held open together, so that the kernel hands out four different ports.
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        etcd_port, peer_port, self.port = (listener.getsockname()[1] for listener in listeners)
        for listener in listeners:
            listener.close()
        client, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        self._spawn("etcd", "--name=test", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync",
                    f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster=test={peer}", "--log-level=warn")
        key = self.folder / "service-accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{_ADMIN_TOKEN},admin,admin,"system:masters"\n', encoding="utf-8")
        self._spawn("kube-apiserver", f"--etcd-servers={client}", "--bind-address=127.0.0.1",
                    f"--secure-port={self.port}", f"--cert-dir={self.folder}/certificates",
                    f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
                    f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                    "--service-cluster-ip-range=10.96.0.0/16", "--disable-admission-plugins=ServiceAccount",
                    "--allow-privileged=true", "--profiling=false")
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready():
            for process in self._processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{process.args[0]} ended with {process.returncode}:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"kube-apiserver is not ready after {_START_SECONDS} s:\n{self._log_tail()}")
            time.sleep(0.1)

    def _log_tail(self):
        return "\n".join(line for log in sorted(self.folder.glob("*.log"))
                         for line in log.read_text(errors="replace").splitlines()[-10:])

    def _ready(self):
        try:
            return self.request("GET", "/readyz") == "ok"
        except (OSError, ApiError):
            return False

    def request(self, method, path, body=None, content_type="application/json", user=None):
        """One request; returns the decoded answer, raises ApiError for a refusal."""
        headers = {"Authorization": f"Bearer {_ADMIN_TOKEN}", "Accept": "application/json"}
        if user:
            headers["Impersonate-User"] = user
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data, headers, method=method)
        # The server signed its certificate itself a moment ago, for loopback.
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                status = json.loads(text)
            except ValueError:
                status = {"message": text}
            raise ApiError(error.code, status) from None
        return json.loads(text) if text.startswith("{") else text

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def create(self, path, body, **options):
        return self.request("POST", path, body, **options)

    def replace(self, path, body, **options):
        return self.request("PUT", path, body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def apply(self, path, body, manager="test", user=None):
        """Server-side apply of one object at its own path."""
        return self.request("PATCH", f"{path}?fieldManager={manager}&force=true", body,
                            "application/apply-patch+yaml", user)

    def create_crd(self, definition):
        """Creates a CRD and waits until the server serves it."""
        base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.create(base, definition)
        deadline = time.monotonic() + 30
        while True:
            conditions = self.get(f"{base}/{definition['metadata']['name']}")["status"].get("conditions") or []
            states = {condition["type"]: condition for condition in conditions}
            if states.get("Established", {}).get("status") == "True" and self._lists(definition):
                return
            refused = states.get("NonStructuralSchema", states.get("NamesAccepted", {"status": "True"}))
            if time.monotonic() > deadline:
                raise RuntimeError(f"{definition['metadata']['name']} is not served: {refused}")
            time.sleep(0.05)

    def _lists(self, definition):
        spec = definition["spec"]
        try:
            self.get(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
        except ApiError as error:
            if error.code in (404, 429):
                return False
            raise
        return True

    def kubeconfig(self):
        """Path of a kubeconfig for the administrator."""
        path = self.folder / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": _ADMIN_TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }), encoding="utf-8")
        return str(path)
