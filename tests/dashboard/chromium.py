"""A headless Chromium driven over its own pipes (the DevTools protocol): no port, no driver program, no library.

    with Chromium() as browser, browser.page("http://127.0.0.1:1234/") as page:
        page.wait("document.title === 'x'")

Nothing of it outlives the `with` block; its profile is a temporary folder.
"""

import base64
import fcntl
import itertools
import json
import os
import shutil
import signal
import tempfile
import threading

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--remote-debugging-pipe", "--window-size=1440,900", "--force-color-profile=srgb"]
PATIENCE = 240  # seconds; a test fails by it only when what it waits for never comes


class BrowserError(Exception):
    pass


def _far_pipe():
    """Ends that are not 3 or 4, which the browser's ends become."""
    ends = os.pipe()
    far = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return far


class Chromium:
    def __init__(self):
        program = shutil.which("chromium")
        if not program:
            raise BrowserError("chromium is not installed: `make setup` (tools/setup.sh test) installs it")
        self._folder = tempfile.mkdtemp(prefix="pitcrew-chromium-")
        commands_end, self._commands = _far_pipe()
        self._answers, answers_end = _far_pipe()
        log = os.path.join(self._folder, "log")
        environment = {**os.environ, "HOME": self._folder, "XDG_CONFIG_HOME": self._folder, "XDG_CACHE_HOME": self._folder}
        self._process = os.posix_spawn(
            program, [program, *FLAGS, f"--user-data-dir={self._folder}/profile", "about:blank"], environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, commands_end, 3), (os.POSIX_SPAWN_DUP2, answers_end, 4),
                          (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                          (os.POSIX_SPAWN_DUP2, 1, 2)],
            setsid=True)
        os.close(commands_end)
        os.close(answers_end)
        self._numbers = itertools.count(1)
        self._waiting = {}
        self._listeners = []
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self._process, signal.SIGKILL)  # its own session: it and its children
        except ProcessLookupError:
            pass
        os.waitpid(self._process, 0)
        self._reader.join(PATIENCE)
        os.close(self._commands)
        os.close(self._answers)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self):
        rest = b""
        while True:
            try:
                piece = os.read(self._answers, 1 << 20)
            except OSError:
                piece = b""
            if not piece:
                break
            *messages, rest = (rest + piece).split(b"\0")
            for text in messages:
                self._take(json.loads(text))
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for slot in waiting.values():
            slot["error"] = {"message": "the browser has ended"}
            slot["done"].set()

    def _take(self, message):
        if "id" in message:
            with self._lock:
                slot = self._waiting.pop(message["id"], None)
            if slot:
                slot.update(message)
                slot["done"].set()
            return
        for listener in list(self._listeners):
            listener(message)

    def listen(self, listener):
        """Calls `listener` with every event, on the reading thread."""
        self._listeners.append(listener)

    def call(self, method, parameters=None, session=None):
        number = next(self._numbers)
        slot = {"done": threading.Event()}
        with self._lock:
            self._waiting[number] = slot
        message = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data):]
        if not slot["done"].wait(PATIENCE):
            raise BrowserError(f"{method}: no answer within {PATIENCE} s")
        if "error" in slot:
            raise BrowserError(f"{method}: {slot['error']['message']}")
        return slot["result"]

    def page(self, url="about:blank", width=1440, height=900):
        """A page in a context of its own: no cookies of others."""
        return Page(self, url, width, height)


class Page:
    def __init__(self, browser, url, width, height):
        self._browser = browser
        self._context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", {"url": "about:blank", "browserContextId": self._context,
                                                      "width": width, "height": height})["targetId"]
        self._session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        self.requests = []  # URLs
        self.complaints = []  # errors of the page's script and of its policy
        browser.listen(self._take)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        if url != "about:blank":
            self.go(url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._browser.call("Target.disposeBrowserContext", {"browserContextId": self._context})

    def _take(self, message):
        if message.get("sessionId") != self._session:
            return
        parameters = message["params"]
        if message["method"] == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif message["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def call(self, method, parameters=None):
        return self._browser.call(method, parameters, self._session)

    def go(self, url):
        self.call("Page.navigate", {"url": url})

    def run(self, expression):
        """The value of an expression of JavaScript; a promise is waited for."""
        answer = self.call("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True,
                                                "userGesture": True})
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {json.dumps(answer['exceptionDetails'])[:2000]}")
        return answer["result"].get("value")

    def wait(self, condition, seconds=PATIENCE - 30):
        """The value of an expression once it counts as true, looked at with every frame. It ends by itself, with what is
        shown, before the call would."""
        try:
            return self.run(f"""new Promise((done, fail) => {{
              const end = performance.now() + {seconds * 1000};
              const look = () => {{
                let value;
                try {{ value = {condition}; }} catch {{ value = false; }}
                if (value) done(value);
                else if (performance.now() > end) fail(new Error("not in time; there is: " + document.body.innerText.slice(0, 3000)));
                else setTimeout(look, 16);
              }};
              look();
            }})""")
        except BrowserError as problem:
            raise AssertionError(f"not within {seconds} s: {condition}\n{problem}") from problem

    def key(self, key, modifiers=0):
        code = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39, "ArrowLeft": 37, "Tab": 9,
                "Home": 36, "End": 35, "PageDown": 34}.get(key, ord(key.upper()[0]))
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", {**event, "type": "keyDown" if text else "rawKeyDown", "text": text})
        self.call("Input.dispatchKeyEvent", {**event, "type": "keyUp"})

    def type(self, text):
        self.call("Input.insertText", {"text": text})

    def prefer(self, scheme):
        """"dark" or "light", as the person's system asks for."""
        self.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def trust_any_certificate(self):
        self.call("Security.setIgnoreCertificateErrors", {"ignore": True})

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", {"format": "png"})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
