#!/usr/bin/env python3
"""Measures `pitcrew dashboard` over a file of many nodes (status_scale.py's) in a headless Chromium.

Prints, for each size: seconds until the command has read the file and serves it, its memory, the size of the fleet as
JSON; in the browser milliseconds until the first paint and until the first rows stand there, the main thread's work for
a frame of scrolling in which every row is another one, and for a change of the search.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "dashboard")]

import status_scale  # noqa: E402
from chromium import Chromium  # noqa: E402

FRAMES = 120
ROWS = "document.querySelectorAll('#view .grid-row:not([hidden])').length > 10"
SCROLL = f"""(async () => {{
  const grid = document.querySelector('.grid');
  for (let i = 0; i < {FRAMES}; i += 1) {{
    grid.scrollTop += 700;
    await new Promise((done) => requestAnimationFrame(done));
  }}
}})()"""
WORDS = ("g", "gpu-4", "gpu-43", "gpu-432", "")
SEARCH = f"""(async () => {{
  const search = document.querySelector('input[name=q]');
  for (const words of {list(WORDS)}) {{
    search.value = words;
    search.dispatchEvent(new Event('input'));
    await new Promise((done) => requestAnimationFrame(done));
  }}
}})()"""


def memory(pid, field):
    return int(re.search(rf"{field}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def work(page):
    """Seconds of a processor that the page's main thread has taken."""
    metrics = page.call("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def per_step(page, script, steps):
    before = work(page)
    page.run(script)
    return 1000 * (work(page) - before) / steps


def in_browser(address):
    with Chromium() as browser, browser.page() as page:
        page.call("Performance.enable", {"timeDomain": "threadTicks"})
        page.go(address)
        rows = page.wait(f"{ROWS} && performance.now()")
        paint = page.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"  first paint                     {paint:6.0f} ms")
        print(f"  first rows                      {rows:6.0f} ms")
        print(f"  work for a frame of scrolling   {per_step(page, SCROLL, FRAMES):6.1f} ms")
        print(f"  work for a change of the search {per_step(page, SEARCH, len(WORDS)):6.1f} ms", flush=True)


def measure(program, file):
    begin = time.monotonic()
    with subprocess.Popen([program, "dashboard", "--file", file], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            origin, token = address.split("/#token=")
            print(f"  served after                    {time.monotonic() - begin:6.1f} s")
            request = urllib.request.Request(f"{origin}/api/fleet", headers={"Authorization": f"Bearer {token}"})
            begin = time.monotonic()
            with urllib.request.urlopen(request, timeout=60) as answer:
                size = len(answer.read())
            print(f"  the fleet as JSON               {size / 1e6:6.1f} MB, in {1000 * (time.monotonic() - begin):.0f} ms")
            in_browser(address)
            print(f"  memory, peak and then           {memory(process.pid, 'VmHWM'):6.0f} MB,"
                  f" {memory(process.pid, 'VmRSS'):.0f} MB", flush=True)
        finally:
            process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="the build tree whose pitcrew is measured")
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000])
    arguments = parser.parse_args()
    for count in arguments.nodes:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "cluster.json"
            status_scale.write(file, count)
            print(f"{count} nodes, {count * len(status_scale.OPERANDS)} pods, {file.stat().st_size / 1e6:.0f} MB of JSON")
            measure(str(arguments.build.resolve() / "bin/pitcrew"), str(file))


if __name__ == "__main__":
    main()
