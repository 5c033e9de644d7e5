"""A real kube-apiserver with its own etcd, for tests in Python: loopback, free ports, a temporary folder.

    with ApiServer() as server:
        server.create("/api/v1/namespaces", {...})

Nothing of it outlives the `with` block, nor the process: the kernel ends both programs with it.
Programs are looked for in the folder $PITCREW_PROGRAMS, in PATH and in $PITCREW_CACHE/programs/*.
"""

import ctypes
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

_START_SECONDS = 300
# A connection that has been idle for so long is not used again: the server may be closing it.
_IDLE_SECONDS = 20
_ADMIN_TOKEN = "admin"
# A user without any rights of its own, with a token; RBAC decides what it may do.
USER = "operator"


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


# Every request of USER, with the object.
_AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "Metadata", "users": [USER]}, {"level": "None"}]}


class ApiServer:
    """`user` in the request methods impersonates that user; by default requests come from an administrator.
    `audit`: the server writes down every request of USER (requests())."""

    def __init__(self, audit=False):
        self._folder = None
        self._processes = {}
        self._ports = []
        self._audit = audit
        self._local = threading.local()
        # The server signed its certificate itself a moment ago, for loopback.
        self._context = ssl._create_unverified_context()  # pylint: disable=protected-access
        self.port = 0
        self.etcd_port = 0

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="pitcrew-apiserver-")
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        for name in reversed(list(self._processes)):
            self._end(name)
        for holder in self._ports:
            holder.close()
        self._folder.cleanup()

    @property
    def folder(self):
        return pathlib.Path(self._folder.name)

    def _spawn(self, name, *arguments):
        with open(self.folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                [find_program(name), *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent)

    def _end(self, name, with_signal=signal.SIGTERM):
        process = self._processes.pop(name)
        process.send_signal(with_signal)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _reserve_port(self):
        """A port that nobody else is given, also while no server listens on it."""
        holder = socket.socket()
        self._ports.append(holder)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]

    def _start(self):
        self.etcd_port, peer_port, self.port = (self._reserve_port() for _ in range(3))
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{peer_port}"
        self._spawn("etcd", "--name=test", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync",
                    f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster=test={peer}", "--log-level=warn", "--socket-reuse-port=true")
        subprocess.run(["openssl", "genrsa", "-out", str(self.folder / "service-accounts.key"), "2048"],
                       check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(
            f'{_ADMIN_TOKEN},admin,admin,"system:masters"\n{USER},{USER},{USER}\n', encoding="utf-8")
        (self.folder / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY), encoding="utf-8")
        self.start_server()

    def start_server(self):
        """Starts kube-apiserver, and waits until it answers. It keeps its port and what etcd holds."""
        key = self.folder / "service-accounts.key"
        audit = [f"--audit-policy-file={self.folder}/audit-policy.json",
                 f"--audit-log-path={self.folder}/audit.log",
                 # In megabytes: a log that begins anew would lose requests.
                 "--audit-log-maxsize=100000"] if self._audit else []
        self._spawn("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
                    "--bind-address=127.0.0.1",
                    f"--secure-port={self.port}", "--permit-port-sharing=true", f"--cert-dir={self.folder}/certificates",
                    f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC",
                    f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                    "--service-cluster-ip-range=10.96.0.0/16", "--disable-admission-plugins=ServiceAccount",
                    "--allow-privileged=true", "--profiling=false", *audit)
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready():
            for process in self._processes.values():
                if process.poll() is not None:
                    raise RuntimeError(f"{process.args[0]} ended with {process.returncode}:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"kube-apiserver is not ready after {_START_SECONDS} s:\n{self._log_tail()}")
            time.sleep(0.1)

    def stop_server(self, with_signal=signal.SIGTERM):
        """Ends kube-apiserver; etcd goes on."""
        self._end("kube-apiserver", with_signal)

    def pause_storage(self):
        """etcd stands still, and with it every write and every read that has to be up to date."""
        self._processes["etcd"].send_signal(signal.SIGSTOP)

    def resume_storage(self):
        self._processes["etcd"].send_signal(signal.SIGCONT)

    def compact(self):
        """Makes etcd forget every revision but the present one: no watch can be taken up again from before."""
        revision = int(self._etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def _etcd(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=240)
        try:
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise RuntimeError(f"etcd: {path}: {answer.status} {text}")
            return json.loads(text)
        finally:
            connection.close()

    def requests(self):
        """USER's requests so far, each once, as (verb, resource, name, HTTP status)."""
        seen = set()
        with open(self.folder / "audit.log", encoding="utf-8") as log:
            for line in log:
                event = json.loads(line)
                if event["auditID"] in seen:
                    continue
                seen.add(event["auditID"])
                about = event.get("objectRef", {})
                yield (event["verb"], about.get("resource", ""), about.get("name", ""),
                       event.get("responseStatus", {}).get("code", 0))

    def allow_everything(self, name="test-everything"):
        """Gives USER every right."""
        self.grant(name, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                          {"nonResourceURLs": ["*"], "verbs": ["*"]}])

    def grant(self, name, rules):
        """Gives USER these rights, by a ClusterRole and a ClusterRoleBinding of that name."""
        base = "/apis/rbac.authorization.k8s.io/v1"
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        self.apply(f"{base}/clusterroles/{name}", head | {"kind": "ClusterRole", "rules": rules})
        self.apply(f"{base}/clusterrolebindings/{name}", head | {
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}]})

    def revoke(self, name="test-everything"):
        self.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}")

    def _log_tail(self):
        return "\n".join(line for log in sorted(self.folder.glob("*.log"))
                         for line in log.read_text(errors="replace").splitlines()[-10:])

    def _ready(self):
        try:
            return self.request("GET", "/readyz") == "ok"
        except (OSError, ApiError):
            return False

    def request(self, method, path, body=None, content_type="application/json", user=None,
                accept="application/json"):
        """One request; returns the decoded answer, raises ApiError for a refusal."""
        headers = {"Authorization": f"Bearer {_ADMIN_TOKEN}", "Accept": accept}
        if user:
            headers["Impersonate-User"] = user
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            # As the server writes it itself: what may not change of an object is compared by bytes.
            data = json.dumps(body, separators=(",", ":")).encode()
        deadline = time.monotonic() + 240
        status, text = self._exchange(method, path, data, headers)
        # Nothing has been done yet: the server has just been started.
        while status == 429 and time.monotonic() < deadline:
            time.sleep(0.1)
            status, text = self._exchange(method, path, data, headers)
        if status >= 300:
            try:
                refusal = json.loads(text)
            except ValueError:
                refusal = {"message": text}
            raise ApiError(status, refusal)
        return json.loads(text) if text.startswith("{") else text

    def _exchange(self, method, path, data, headers):
        """Status and text. Each thread keeps its connection, as a handshake costs more than a request."""
        connection = getattr(self._local, "connection", None)
        if connection is not None and time.monotonic() - self._local.used > _IDLE_SECONDS:
            connection.close()
            connection = None
        reused = connection is not None
        if not reused:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=240)
        self._local.connection = None
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            # The server may have gone since; a read can be tried again.
            if reused and method == "GET":
                return self._exchange(method, path, data, headers)
            raise problem if isinstance(problem, OSError) else ConnectionError(str(problem)) from problem
        self._local.connection, self._local.used = connection, time.monotonic()
        return answer.status, text

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def versions(self, path):
        """Name and resource version of every object of a collection."""
        listed = self.get(path, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        return [(item["metadata"]["name"], item["metadata"]["resourceVersion"]) for item in listed["items"] or []]

    def revision(self):
        """The revision of the whole cluster: as long as it stays, nobody has written anything."""
        return self.get("/api/v1/namespaces/default/configmaps?limit=1")["metadata"]["resourceVersion"]

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
        deadline = time.monotonic() + 240
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

    def kubeconfig(self, user="admin", port=None):
        """Path of a kubeconfig for the administrator or USER, by way of another port where one is given."""
        path = self.folder / f"kubeconfig-{user}"
        cluster = {"server": f"https://127.0.0.1:{port or self.port}", "insecure-skip-tls-verify": True}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": user}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }), encoding="utf-8")
        return str(path)
