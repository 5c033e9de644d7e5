#!/usr/bin/env python3
"""Pushes image archives to a registry, with skopeo: archives of one image for several architectures become one tag.

    push.py --to registry.example.com/team build/release/images/pitcrew.tar build/release-arm64/images/pitcrew.tar

The tag is the version that the archive carries. Credentials are those that skopeo finds: `skopeo login`, `podman
login`, `docker login`, or the file that REGISTRY_AUTH_FILE names. Beside what was pushed, the Helm values are
written that make the chart use it. Exit status: 0 done, 1 failure, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

import archives

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_CHART = ROOT / "deploy/chart/gpu-operator"
_OURS = ("docker.io/pitcrew", "pitcrew")  # repository and image, as the chart's defaults name them
# Registry (a host name with a dot or a port, or localhost) and at least one path component, as the distribution
# specification writes them.
_HOST = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|\[[0-9a-fA-F:]+\](?=:)|[A-Za-z0-9-]+(?=:))(?::\d+)?"
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TARGET = re.compile(rf"{_HOST}(?:/{_PATH})+")


class PushError(Exception):
    """The image could not be pushed."""


def target(text: str) -> str:
    text = text.removeprefix("docker://").rstrip("/")
    if re.match(r"https?://", text):
        raise argparse.ArgumentTypeError(f'"{text}": write it without https://, for example '
                                         f'{re.sub("^https?://", "", text)}')
    if not _TARGET.fullmatch(text):
        raise argparse.ArgumentTypeError(f'"{text}": write REGISTRY/PATH, both in full and the path in lower case, for '
                                         "example registry.example.com/team or docker.io/team (image name and tag "
                                         "are added)")
    return text


def _advice(words: str, to: str) -> str:
    """What to do about skopeo's words; empty where they speak for themselves."""
    registry = to.split("/")[0]
    told = words.lower()
    # Before "unauthorized": a registry that talks plain HTTP is asked for nothing else.
    if "http response to https client" in told:
        return f"{registry} speaks plain HTTP; if that is meant, push with INSECURE=1 (push.py --insecure)"
    if "certificate" in told or "x509" in told:
        return (f"put the authority of {registry} into /etc/containers/certs.d/{registry}/ca.crt, or push with "
                "INSECURE=1 (push.py --insecure)")
    if any(sign in told for sign in ("unauthorized", "authentication required", "denied", "forbidden", "401", "403")):
        return (f"log in with `skopeo login {registry}` as somebody who may push to {to}, or name a file with "
                "credentials in REGISTRY_AUTH_FILE")
    if any(sign in told for sign in ("no such host", "connection refused", "i/o timeout", "no route to host")):
        return f"is {registry} the right name, and reachable from here?"
    return ""


def push(image: list[archives.Archive], to: str, insecure: bool) -> str:
    """Pushes one image; returns its full name with the digest that the registry has for it."""
    name = f"{to}/{image[0].name}:{image[0].tag}"
    with tempfile.TemporaryDirectory() as folder:
        layout = pathlib.Path(folder) / "layout"
        layout.mkdir()
        written = archives.write_layout(image, layout)
        told = pathlib.Path(folder) / "digest"
        # Digests stay what they are: with --all, and nothing compressed anew, the registry has the bytes of here.
        argv = ["skopeo", "copy", "--quiet", "--all", "--retry-times", "3", "--preserve-digests", "--digestfile",
                str(told), f"--dest-tls-verify={'false' if insecure else 'true'}",
                f"oci:{layout}:{image[0].tag}", f"docker://{name}"]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            words = re.sub(r'^time="[^"]*" level=\w+ msg="?|"$', "", result.stderr.strip(), flags=re.MULTILINE)
            advice = _advice(words, to)
            raise PushError(f"{name}: {words}" + (f"\n  {advice}" if advice else ""))
        digest = told.read_text(encoding="ascii").strip()
    if digest != written:
        raise PushError(f"{name}: the registry has {digest}, and what was pushed is {written}")
    return f"{name}@{digest}"


def _own_images(values: dict) -> dict:
    """The part of a chart's values that names Pitcrew's image, block by block."""
    found = {}
    for key, value in values.items():
        if isinstance(value, dict):
            if (value.get("repository"), value.get("image")) == _OURS:
                found[key] = {}
            below = _own_images(value)
            if below or key in found:
                found[key] = {**found.get(key, {}), **below}
    return found


def chart_values(to: str, pull_secret: str | None) -> dict:
    """Values that make the chart take the image from `to`, in every place where its defaults name ours."""
    def fill(blocks: dict, defaults: dict):
        for key, block in blocks.items():
            fill(block, defaults[key])
            if (defaults[key].get("repository"), defaults[key].get("image")) == _OURS:
                block["repository"] = to
                if pull_secret:
                    block["imagePullSecrets"] = [pull_secret]
    defaults = yaml.safe_load((_CHART / "values.yaml").read_text(encoding="utf-8"))
    values = _own_images(defaults)
    fill(values, defaults)
    nfd = {"image": {"repository": f"{to}/{_OURS[1]}"}}
    if pull_secret:
        nfd["imagePullSecrets"] = [{"name": pull_secret}]
    values["node-feature-discovery"] = nfd
    return values


def _write_values(path: pathlib.Path, to: str, pull_secret: str | None):
    text = yaml.safe_dump(chart_values(to, pull_secret), sort_keys=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# Pitcrew's image from {to}: Helm values, written by deploy/image/push.py.\n{text}",
                    encoding="utf-8")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archives", nargs="+", type=pathlib.Path, help="what build.py has written")
    parser.add_argument("--to", type=target, required=True, metavar="REGISTRY/PATH")
    parser.add_argument("--insecure", action="store_true",
                        help="also over plain HTTP, and without verifying the registry's certificate")
    parser.add_argument("--values", type=pathlib.Path, default=ROOT / "build/pushed-values.yaml",
                        help="where the Helm values are written (default: build/pushed-values.yaml)")
    parser.add_argument("--pull-secret", metavar="NAME",
                        help="a Secret of the operator's namespace that the nodes pull with, for the Helm values")
    return parser.parse_args()


def main() -> int:
    arguments = _parse()
    if not shutil.which("skopeo"):
        print("error: skopeo is not installed; `tools/setup.sh push` installs it (Debian package skopeo)",
              file=sys.stderr)
        return 1
    try:
        images = archives.by_reference([archives.read(path) for path in arguments.archives])
        for image in images.values():
            pushed = push(image, arguments.to, arguments.insecure)
            print(f"pushed {pushed} ({', '.join(one.architecture for one in image)})")
    except (archives.ArchiveError, PushError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if any(one.name == _OURS[1] for image in images.values() for one in image):
        _write_values(arguments.values, arguments.to, arguments.pull_secret)
        path = os.path.relpath(arguments.values)
        print(f"Helm values that use it: {path}\n  helm install gpu-operator {os.path.relpath(_CHART)} -n gpu-operator "
              f"--create-namespace -f {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
