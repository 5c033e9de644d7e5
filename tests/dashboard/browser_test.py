#!/usr/bin/env python3
"""`pitcrew dashboard` in a real headless Chromium: what is shown, a change while it is shown, keys, links, and whether people
who do not see it can use it (axe-core). The folder of the build's programs is the only argument.

PITCREW_SCREENSHOTS=folder writes the pictures of docs/dashboard.md."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tests/bench")]

import apiserver  # noqa: E402  pylint: disable=wrong-import-position
import status_scale  # noqa: E402  pylint: disable=wrong-import-position
import unittest_main  # noqa: E402  pylint: disable=wrong-import-position
from chromium import Chromium  # noqa: E402  pylint: disable=wrong-import-position
from processes import eventually  # noqa: E402  pylint: disable=wrong-import-position
from fleet_file import write_small  # noqa: E402  pylint: disable=wrong-import-position

BINARIES = pathlib.Path(sys.argv.pop()).resolve()
ROWS = "[...document.querySelectorAll('#view .grid-row:not([hidden])')]"
MERGE = "application/merge-patch+json"


def axe_source():
    cache = os.environ.get("PITCREW_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pitcrew")
    found = sorted(pathlib.Path(cache).glob("programs/axe-core/**/axe.min.js"))
    if not found:
        sys.exit(f"axe-core is not in {cache}: `make setup` (tools/setup.sh test) puts it there")
    return found[-1].read_text(encoding="utf-8")


class Dashboard:
    """The command as a process; its address is what it prints."""

    def __init__(self, *words, folder=None):
        self.process = subprocess.Popen([BINARIES / "pitcrew", "dashboard", *words], stdout=subprocess.PIPE, text=True, cwd=folder)
        self.address = self.process.stdout.readline().strip()
        self.origin, self.token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#token=([0-9a-f]{48})", self.address).groups()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.status = self.process.wait(240)
        self.process.stdout.close()

    def answer(self, path, headers=None):
        """Status, headers and text."""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.origin + path, headers=headers or {}), timeout=240) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.headers, refusal.read().decode()


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.axe = axe_source()
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-dashboard-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.browser = Chromium()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.small = cls.folder / "fleet.json"
        write_small(cls.small)
        cls.shown = Dashboard("--file", cls.small.name, folder=cls.folder)
        cls.addClassCleanup(cls.shown.__exit__)

    def open(self, dashboard, fragment="", **more):
        """A page with a session that looks at one place."""
        page = self.browser.page(**more)
        self.addCleanup(page.__exit__)
        page.go(dashboard.address + fragment)
        page.wait("document.querySelector('#tabs a') && /^(live|as of)/.test(document.getElementById('live').textContent)")
        # What has come is drawn with the next frame.
        page.run("new Promise((done) => requestAnimationFrame(done))")
        return page

    def row(self, name):
        return f"{ROWS}.find((row) => row.firstChild.textContent === {json.dumps(name)})"

    def doctor(self, *words):
        done = subprocess.run([BINARIES / "pitcrew", "doctor", "--cluster", self.small, "-o", "json", *words], check=False,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    # --- what is shown

    def test_the_page_says_what_doctor_says(self):
        page = self.open(self.shown)
        report = self.doctor()
        page.wait(f"{ROWS}.length === {len(report['nodes'])}")
        shown = page.run(f"{ROWS}.map((row) => [row.firstChild.textContent, row.querySelector('.link.bad')?.ariaLabel ?? ''])")
        told = {node["name"]: "" if node["ready"] else node["stage"] for node in report["nodes"]}
        self.assertEqual({name: label.removesuffix(": broken").replace(" ", "-").lower() for name, label in shown}, told)
        self.assertGreater(len(set(told.values())), 3, "the file has trouble of several kinds")
        # Not ready first, along the chain.
        self.assertEqual([name for name, label in shown if label], [name for name, _ in shown][:sum(map(bool, told.values()))])

    def test_behind_a_red_square_are_evidence_and_fix(self):
        node = next(one for one in self.doctor()["nodes"] if not one["ready"] and one["finding"]["evidence"])
        full = self.doctor(node["name"])["nodes"][0]["finding"]
        page = self.open(self.shown)
        bad = f"{self.row(node['name'])}?.querySelector('.link.bad')"
        page.wait(bad)
        page.run(f"{bad}.click()")
        page.wait("document.querySelector('#panel .fix')")
        text = page.run("document.getElementById('panel').innerText")
        for words in (full["summary"], full["id"], full["evidence"][0]["text"].splitlines()[0], full["fix"].splitlines()[0]):
            self.assertIn(words, text)

    def test_every_trouble_is_told_once(self):
        report = self.doctor()
        page = self.open(self.shown, "/wrong")
        page.wait("document.querySelector('.card')")
        ids = page.run("[...document.querySelectorAll('.card .summary-line code')].map((code) => code.textContent)")
        expected = [finding["id"] for finding in report["cluster"]]
        expected += list(dict.fromkeys(node["finding"]["id"] for node in report["nodes"] if not node["ready"]))
        self.assertEqual(sorted(ids), sorted(expected))

    def test_waiting_pods_have_their_reason(self):
        pods = self.doctor()["pods"]
        page = self.open(self.shown, "/pods")
        page.wait(f"{ROWS}.length === {len(pods)}")
        self.assertEqual(page.run(f"{ROWS}.map((row) => row.lastChild.textContent).sort()"), sorted(pod["summary"] for pod in pods))

    def test_mig_instances_are_to_scale(self):
        page = self.open(self.shown, "/nodes?q=mig")
        page.wait("document.querySelectorAll('.many').length > 1")
        widths = page.run("[...document.querySelectorAll('.many')].map((many) => [many.textContent, "
                          "many.querySelector('.size').getBoundingClientRect().width])")
        by_profile = {text.split()[-1]: width for text, width in widths}
        self.assertAlmostEqual(by_profile["3g.40gb"], 3 * by_profile["1g.10gb"], delta=0.5)

    # What a container or an image registry writes is text, whatever it looks like.
    def test_words_of_others_are_never_markup(self):
        page = self.open(self.shown, "/nodes?open=node/gpu-markup")
        page.wait("document.querySelector('#panel pre')")
        self.assertIn("<img src=x onerror=alert(1)>", page.run("document.querySelector('#panel').textContent"))
        self.assertEqual(page.run("document.querySelectorAll('#panel img').length"), 0)
        self.assertEqual(page.complaints, [])

    # --- live

    def test_a_fault_is_shown_without_a_reload_and_goes_again(self):
        with apiserver.ApiServer() as server:
            crds = ROOT / "deploy/chart/gpu-operator/crds"
            server.create_crd(yaml.safe_load((crds / "nvidia.com_clusterpolicies.yaml").read_text()))
            server.create("/api/v1/namespaces", {"metadata": {"name": status_scale.SPACE}})
            self.fill(server, 3)
            with Dashboard("--kubeconfig", server.kubeconfig()) as dashboard:
                page = self.open(dashboard)
                page.wait(f"{self.row('gpu-0')} && !{self.row('gpu-0')}.querySelector('.bad')")
                page.run("window.stayed = true")
                offer = lambda number: server.request(  # noqa: E731
                    "PATCH", "/api/v1/nodes/gpu-0/status", {"status": {"allocatable": {"nvidia.com/gpu": str(number)}}},
                    "application/strategic-merge-patch+json")
                offer(6)
                page.wait(f"{self.row('gpu-0')}.querySelector('.link.bad')?.ariaLabel === 'allocatable: broken'")
                self.assertEqual(page.run(f"{self.row('gpu-0')}.querySelectorAll('.tile.bad').length"), 2)
                page.wait("document.querySelector('#news').textContent.includes('not ready')")
                offer(8)
                page.wait(f"!{self.row('gpu-0')}.querySelector('.link.bad')")
                self.assertTrue(page.run("window.stayed"))
            self.assertEqual(dashboard.status, 0)
            # What is shown when the command has ended is said to be old.
            page.wait("/connection lost|ended/.test(document.getElementById('live').textContent)")

    @staticmethod
    def fill(server, count):
        """Nodes as status_scale.py makes them, all well."""
        paths = {"ClusterPolicy": "/apis/nvidia.com/v1/clusterpolicies", "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
                 "DaemonSet": f"/apis/apps/v1/namespaces/{status_scale.SPACE}/daemonsets", "Node": "/api/v1/nodes",
                 "Pod": f"/api/v1/namespaces/{status_scale.SPACE}/pods"}
        objects = list(status_scale.objects(count))
        for index in (0, 4, 5)[:count]:
            objects += [status_scale.node(index), *(status_scale.pod(name, index) for name in status_scale.OPERANDS)]
        for one in objects:
            status = one.pop("status", None)
            server.create(paths[one["kind"]], one)
            if status:
                server.request("PATCH", f"{paths[one['kind']]}/{one['metadata']['name']}/status", {"status": status}, MERGE)

    # --- keys and links

    def test_everything_can_be_reached_by_keys(self):
        page = self.open(self.shown)
        page.wait(f"{ROWS}.length > 5")
        page.key("Tab")
        self.assertEqual(page.run("document.activeElement.id"), "skip")
        page.key("Enter")
        page.wait("document.activeElement.getAttribute('role') === 'gridcell'")
        names = page.run(f"{ROWS}.sort((a, b) => a.dataset.index - b.dataset.index).map((row) => row.firstChild.textContent)")
        here = "document.activeElement.closest('.grid-row').firstChild.textContent"
        self.assertEqual(page.run(here), names[0])
        page.key("ArrowDown")
        page.key("ArrowDown")
        page.key("ArrowRight")
        self.assertEqual(page.run(here), names[2])
        self.assertEqual(page.run("document.activeElement.getAttribute('aria-colindex')"), "2")
        page.key("Enter")
        page.wait("!document.getElementById('panel').hidden")
        self.assertEqual(page.run("document.querySelector('#panel h2').textContent"), names[2])
        self.assertEqual(page.run("document.activeElement.id"), "panel")
        page.key("Escape")
        page.wait("document.getElementById('panel').hidden")
        self.assertEqual(page.run(here), names[2])
        page.key("/")
        self.assertEqual(page.run("document.activeElement.name"), "q")
        page.type("markup")
        page.wait(f"{ROWS}.length === 1")

    def test_every_state_is_a_link(self):
        page = self.open(self.shown)
        page.wait(f"{ROWS}.length > 5")
        page.run("document.querySelector('[data-column=driver] button').click()")
        page.wait(f"{ROWS}.every((row) => row.querySelector('.link.bad').ariaLabel === 'driver: broken')")
        page.run(f"{ROWS}[0].click()")
        page.wait("document.querySelector('#panel .fix')")
        address = page.run("location.href")
        self.assertNotIn(self.shown.token, address)
        rows, title = page.run(f"[{ROWS}.length, document.querySelector('#panel h2').textContent]")
        again = self.open(self.shown, address.split("#")[1])
        again.wait(f"{ROWS}.length === {rows} && document.querySelector('#panel h2')?.textContent === '{title}'")
        page.run("history.back()")
        page.wait("document.getElementById('panel').hidden")

    # --- a large fleet

    def test_of_a_large_fleet_only_what_is_on_the_screen_exists(self):
        file = self.folder / "large.json"
        status_scale.write(file, 1000)
        with Dashboard("--file", str(file)) as dashboard:
            page = self.open(dashboard)
            page.wait(f"{ROWS}.length > 10")
            self.assertEqual(page.run("document.querySelector('[role=grid]').getAttribute('aria-rowcount')"), "1001")
            self.assertLess(page.run("document.querySelectorAll('.grid-row').length"), 80)
            page.run("document.querySelector('.grid').scrollTop = 1e9")
            page.wait(f"{self.row('gpu-999')}")
            self.assertLess(page.run("document.querySelectorAll('.grid-row').length"), 80)
            page.run("document.querySelector('input[name=q]').focus()")
            page.type("gpu-432")
            page.wait(f"{ROWS}.length === 1 && {self.row('gpu-432')}")

    # --- who is let in, and what is fetched

    def test_only_who_has_the_token_sees_the_fleet(self):
        for path in ("/api/fleet", "/api/events", "/api/nodes/gpu-0"):
            self.assertEqual(self.shown.answer(path)[0], 401, path)
        token = {"Authorization": f"Bearer {self.shown.token}"}
        self.assertEqual(self.shown.answer("/api/fleet", token)[0], 200)
        self.assertEqual(self.shown.answer("/api/fleet", {**token, "Host": "evil.example"})[0], 421)
        page = self.browser.page()
        self.addCleanup(page.__exit__)
        page.go(self.shown.origin + "/")
        page.wait("/Open the address/.test(document.body.innerText)")
        # With a session it needs the token no more.
        page.go(self.shown.address)
        page.wait(f"{ROWS}.length > 5")
        page.go("about:blank")
        page.go(self.shown.origin + "/")
        page.wait(f"{ROWS}.length > 5")

    def test_in_a_cluster_a_token_lets_in(self):
        with apiserver.ApiServer() as server:
            server.create("/api/v1/nodes", {"metadata": {"name": "gpu-0", "labels": {
                "feature.node.kubernetes.io/pci-10de.present": "true"}}})
            log = self.folder / "in-cluster.log"
            with open(log, "wb") as out, subprocess.Popen(
                    [BINARIES / "pitcrew", "dashboard", "--listen", "127.0.0.1:0", "--kubeconfig", server.kubeconfig()],
                    stdout=out, stderr=out) as program:
                try:
                    port = eventually(lambda: re.search(r'port="?(\d+)', log.read_text()), log.read_text).group(1)
                    page = self.browser.page()
                    self.addCleanup(page.__exit__)
                    page.trust_any_certificate()
                    page.go(f"https://127.0.0.1:{port}/")
                    for token, said in (("nobody", "does not know this token"), (apiserver.USER, "may not list nodes")):
                        page.wait("document.activeElement?.name === 'token' && !document.activeElement.value")
                        page.type(token)
                        page.key("Enter")
                        page.wait(f"document.body.innerText.includes('{said}')")
                    page.type("admin")
                    page.key("Enter")
                    page.wait(self.row("gpu-0"))
                finally:
                    program.terminate()

    def test_nothing_comes_from_anywhere_else(self):
        page = self.open(self.shown, "/nodes?open=node/gpu-markup")
        page.wait("document.querySelector('#panel .fix')")
        self.assertEqual([url for url in page.requests if not url.startswith((self.shown.origin, "about:", "data:"))], [])
        self.assertGreater(len(page.requests), 5)
        self.assertEqual(page.complaints, [])

    # --- people

    def test_nobody_is_shut_out(self):
        places = ["/nodes", "/nodes?open=node/gpu-markup", "/nodes?q=nothing-is-like-that", "/wrong", "/pods", "/roll-outs"]
        for scheme in ("light", "dark"):
            # Colours are all that differs in the dark: the place that has most of them.
            for place in places if scheme == "light" else places[1:2]:
                page = self.browser.page()
                self.addCleanup(page.__exit__)
                page.prefer(scheme)
                page.go(self.shown.address + place)
                page.wait("document.querySelector('.grid-row, .card, .empty:not([hidden])')")
                if "open=" in place:
                    page.wait("document.querySelector('#panel .fix')")
                page.run(self.axe + "; 0")
                found = page.run("axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map("
                                 "({id, help, nodes}) => [id, help, nodes.slice(0, 3).map(({html, failureSummary}) => html + failureSummary)]))")
                self.assertEqual(found, [], f"{place}, {scheme}: {json.dumps(found, indent=1)}")

    # A state that only its colour told would be the same text as another.
    def test_no_state_is_told_by_colour_alone(self):
        page = self.open(self.shown)
        page.wait(f"{ROWS}.length > 5")
        symbols = page.run(f"Object.fromEntries({ROWS}.flatMap((row) => [...row.querySelectorAll('.link')])"
                           ".map((cell) => [cell.className.split(' ').at(-1), cell.textContent]))")
        self.assertEqual(len(set(symbols.values())), len(symbols), symbols)
        self.assertIn("bad", symbols)
        self.assertEqual(page.run("document.querySelector('.tile.bad').textContent"), "\u00d7")

    def test_the_theme_can_be_chosen_and_stays(self):
        page = self.open(self.shown)
        ground = "getComputedStyle(document.body).backgroundColor"
        page.prefer("light")
        light = page.run(ground)
        page.run("document.getElementById('theme').click()")
        page.run("document.getElementById('theme').click()")
        self.assertNotEqual(page.run(ground), light)
        page.go(self.shown.origin + "/")
        page.wait("document.documentElement.dataset.theme === 'dark'")

    if os.environ.get("PITCREW_SCREENSHOTS"):  # no test, but made as one: it needs all that they have
        def test_pictures_of_the_documentation(self):
            folder = os.environ["PITCREW_SCREENSHOTS"]
            for name, scheme, place, shown in (
                    ("dashboard-nodes", "light", "/nodes", "#view .grid-row"),
                    ("dashboard-evidence", "dark", "/nodes?open=node/gpu-03", "#panel .fix")):
                page = self.browser.page(width=1280, height=720)
                self.addCleanup(page.__exit__)
                page.prefer(scheme)
                page.go(self.shown.address + place)
                page.wait(f"document.querySelector({json.dumps(shown)})")
                page.wait("document.fonts.status === 'loaded'")
                page.screenshot(pathlib.Path(folder) / f"{name}.png")


if __name__ == "__main__":
    unittest_main.main()
