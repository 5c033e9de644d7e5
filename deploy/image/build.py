#!/usr/bin/env python3
"""Builds a container image from a recipe, without a container engine: a deterministic docker-archive.

    build.py --build build/release --into build/release/images recipes/pitcrew.yaml ...

A recipe names the image and its files; the same inputs give the same bytes. The image is for the architecture that
the build folder is built for. The archive has one layer,
compressed; `ctr images import`, `docker load` and `skopeo copy docker-archive:` take it. For each image the
sizes are printed. Exit status: 0 done, 1 failure, 2 usage or a malformed recipe.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zlib

import yaml

import libraries
from libraries import BuildError

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_EPOCH = "1970-01-01T00:00:00Z"
_VARIABLES = {"driver_version": "580.95.05"}
_RECIPE_KEYS = {"image", "tag", "config", "folders", "files", "trees", "texts", "links", "busybox", "commands",
                "libraries"}
# Debian 12's merged layout: these are links in every image.
_MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_COMMAND = re.compile(r'^COMMAND\("[^"]*",\s*"([^"]*)"', re.MULTILINE)


class RecipeError(Exception):
    """The recipe cannot be used."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One member of the layer."""

    mode: int
    content: bytes | None = None
    link: str | None = None  # target of a symbolic link; a folder has neither content nor link


class Layer:
    def __init__(self):
        self._entries: dict[str, Entry] = {}
        self.sources: dict[str, pathlib.Path] = {}  # member -> the file that it was read from
        for link, target in _MERGED.items():
            self.folder(f"/{target}")
            self._entries[link] = Entry(0o777, link=target)

    @staticmethod
    def _name(path: str) -> str:
        """The member's name, with /bin, /lib and so on led to where they really lie."""
        name = os.path.normpath(path).lstrip("/")
        first, _, rest = name.partition("/")
        return f"{_MERGED[first]}/{rest}" if first in _MERGED and rest else name

    def _add(self, path: str, entry: Entry):
        name = self._name(path)
        if os.path.dirname(name):
            self.folder("/" + os.path.dirname(name))
        self._entries[name] = entry

    def folder(self, path: str, mode: int = 0o755):
        name = self._name(path)
        if name in self._entries and mode == 0o755:
            return
        parts = name.split("/")
        for count in range(1, len(parts)):
            self._entries.setdefault("/".join(parts[:count]), Entry(0o755))
        self._entries[name] = Entry(mode)

    def file(self, path: str, content: bytes, mode: int, source: pathlib.Path | None = None):
        self._add(path, Entry(mode, content=content))
        if source:
            self.sources[self._name(path)] = source

    def link(self, path: str, target: str):
        self._add(path, Entry(0o777, link=target))

    def __contains__(self, path: str) -> bool:
        return self._name(path) in self._entries

    def tar(self) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, entry in sorted(self._entries.items()):
                member = tarfile.TarInfo(name)
                member.mode = entry.mode
                if entry.link is not None:
                    member.type, member.linkname = tarfile.SYMTYPE, entry.link
                    archive.addfile(member)
                elif entry.content is not None:
                    member.size = len(entry.content)
                    archive.addfile(member, io.BytesIO(entry.content))
                else:
                    member.type = tarfile.DIRTYPE
                    archive.addfile(member)
        return stream.getvalue()


@dataclasses.dataclass(frozen=True)
class Target:
    """What the image is for, and where that architecture's libraries lie: as the build folder was configured."""

    architecture: libraries.Architecture
    root: pathlib.Path

    @staticmethod
    def of(build: pathlib.Path, wanted: str | None) -> Target:
        """A folder without a CMake cache (an image of what is not compiled) is for this machine, unless `wanted`
        names another architecture."""
        settings = {}
        cache = build / "CMakeCache.txt"
        if cache.is_file():
            settings = dict(re.findall(r"^(PITCREW_\w+):\w+=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE))
        name = settings.get("PITCREW_ARCHITECTURE", libraries.this_machine().name if cache.is_file() else None)
        if wanted and name and wanted != name:
            raise BuildError(f"{build} is built for {name}, not for {wanted}")
        architecture = libraries.ARCHITECTURES[wanted or name or libraries.this_machine().name]
        return Target(architecture, pathlib.Path(settings.get("PITCREW_SYSROOT", "/")))


class Recipe:
    def __init__(self, path: pathlib.Path, build: pathlib.Path, target: Target, variables: dict[str, str]):
        self.path = path
        self.target = target
        self._variables = {"build": str(build), "root": str(ROOT), "triplet": target.architecture.triplet,
                           "system": str(target.root).rstrip("/"), **variables}
        try:
            self.data = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise RecipeError(f"{path}:{line}: not valid YAML: {error.problem}") from error
        except OSError as error:
            raise RecipeError(f"{path}: {error.strerror}") from error
        if not isinstance(self.data, dict) or not {"image", "tag"} <= self.data.keys():
            raise RecipeError(f"{path}: a recipe is a mapping with at least `image` and `tag`")
        unknown = self.data.keys() - _RECIPE_KEYS
        if unknown:
            raise RecipeError(f"{path}: no such key: {', '.join(sorted(unknown))}; known: "
                              f"{', '.join(sorted(_RECIPE_KEYS))}")

    def expand(self, text: str) -> str:
        def value(match: re.Match) -> str:
            if match[1] not in self._variables:
                raise RecipeError(f"{self.path}: ${{{match[1]}}} is not defined; defined: "
                                  f"{', '.join(sorted(self._variables))}; others are given with --set NAME=VALUE")
            return self._variables[match[1]]
        return re.sub(r"\$\{(\w+)\}", value, str(text))

    def reference(self) -> str:
        return f"{self.expand(self.data['image'])}:{self.expand(self.data['tag'])}"

    def _add_found(self, layer: Layer, found: dict[str, pathlib.Path]):
        for seen, file in sorted(found.items()):
            if seen not in layer:
                layer.file(seen, file.read_bytes(), 0o755, file)

    def _add_libraries(self, layer: Layer, program: pathlib.Path):
        self._add_found(layer, libraries.libraries_of(program, self.target.architecture, self.target.root))

    def _add_named_library(self, layer: Layer, name: str):
        """One that no program of the image asks for, but what is loaded into them or mounted beside them does."""
        seen, file = libraries.find_library(name, self.reference(), self.target.architecture, self.target.root)
        self._add_found(layer, {seen: file})
        self._add_libraries(layer, file)

    def _add_file(self, layer: Layer, entry: dict):
        source = pathlib.Path(self.expand(entry["from"]))
        target = self.expand(entry["to"])
        if not source.is_file():
            raise BuildError(f"{source} is not there (for {target} of {self.reference()}); build it first: `make build`")
        mode = int(str(entry.get("mode", "755")), 8)
        content = libraries.stripped(source, self.target.architecture) if entry.get("strip") else source.read_bytes()
        layer.file(target, content, mode, source)
        if entry.get("libraries"):
            self._add_libraries(layer, source)
        for link in entry.get("links", []):
            layer.link(self.expand(link), target)

    def _add_tree(self, layer: Layer, entry: dict):
        """Every file below a folder, but for the folders in `without`. What is there twice is a link the second time."""
        source = pathlib.Path(self.expand(entry["from"]))
        target = self.expand(entry["to"])
        without = {source / name for name in entry.get("without", [])}
        files = [file for file in sorted(source.rglob("*"))
                 if file.is_file() and not without.intersection(file.parents)]
        if not files:
            raise BuildError(f"{source} is not there, or empty (for {target} of {self.reference()})")
        seen: dict[bytes, str] = {}
        for file in files:
            content = file.read_bytes()
            place = f"{target}/{file.relative_to(source)}"
            first = seen.setdefault(content, place)
            if first == place:
                layer.file(place, content, 0o644, file)
            else:
                layer.link(place, os.path.relpath(first, os.path.dirname(place)))

    def _add_busybox(self, layer: Layer, target: str):
        source = self.target.root / "bin/busybox"
        own = pathlib.Path("/bin/busybox")  # one of another architecture tells its commands to nobody here
        if not source.is_file() or not own.is_file() or libraries.libraries_of(source, self.target.architecture):
            raise BuildError(f"static {source} and {own} are needed; install the Debian package busybox-static")
        layer.file(target, source.read_bytes(), 0o755, source)
        listed = subprocess.run([str(own), "--list"], capture_output=True, text=True, check=True).stdout
        for applet in listed.split():
            if applet != "busybox" and f"/usr/bin/{applet}" not in layer:
                layer.link(f"/usr/bin/{applet}", target)

    def _add_command_names(self, layer: Layer, program: str):
        """Upstream's program names, as the multi-call binary's own table has them."""
        table = (ROOT / "src/main/commands.def").read_text(encoding="utf-8")
        for names in _COMMAND.findall(table):
            for name in names.split():
                layer.link(f"/usr/bin/{name}", program)

    @functools.cached_property
    def layer(self) -> Layer:
        layer = Layer()
        for path, mode in (self.data.get("folders") or {}).items():
            layer.folder(path, int(str(mode), 8))
        for path, text in (self.data.get("texts") or {}).items():
            layer.file(self.expand(path), self.expand(text).encode(), 0o644)
        for entry in self.data.get("files") or []:
            self._add_file(layer, entry)
        for entry in self.data.get("trees") or []:
            self._add_tree(layer, entry)
        for name in self.data.get("libraries") or []:
            self._add_named_library(layer, name)
        if "commands" in self.data:
            self._add_command_names(layer, self.data["commands"])
        for path, target in (self.data.get("links") or {}).items():
            layer.link(self.expand(path), self.expand(target))
        if "busybox" in self.data:  # last: a program of ours goes before an applet of the same name
            self._add_busybox(layer, self.data["busybox"])
        return layer


def compressed(data: bytes) -> bytes:
    """gzip without a time stamp or name, so that the same bytes come out every time."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def load(path: pathlib.Path, build: pathlib.Path, architecture: str | None = None,
         variables: dict[str, str] | None = None) -> Recipe:
    """The recipe, for what the build folder is built for."""
    build = build.absolute()
    return Recipe(path, build, Target.of(build, architecture), {**_VARIABLES, **(variables or {})})


def write_archive(recipe: Recipe, into: pathlib.Path) -> tuple[pathlib.Path, int, int]:
    """Writes the archive; returns its path and the layer's size without and with compression."""
    layer = recipe.layer.tar()
    packed = compressed(layer)
    config = json.dumps({
        "architecture": recipe.target.architecture.name, "os": "linux", "created": _EPOCH, "config": recipe.data.get("config") or {},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": _EPOCH, "created_by": recipe.path.name}],
    }, sort_keys=True).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = hashlib.sha256(packed).hexdigest() + ".tar.gz"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [recipe.reference()], "Layers": [layer_name]}]).encode()
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"{recipe.path.stem}.tar"
    temporary = path.with_suffix(".new")
    with tarfile.open(temporary, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in ((config_name, config), (layer_name, packed), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    os.replace(temporary, path)
    return path, len(layer), len(packed)


def _assignment(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f'"{text}": write NAME=VALUE')
    return name, value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the CMake build folder with the programs")
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder for the archives")
    parser.add_argument("--architecture", choices=sorted(libraries.ARCHITECTURES),
                        help="what the image is for (default: what the build folder is built for)")
    parser.add_argument("--set", type=_assignment, action="append", default=[], metavar="NAME=VALUE",
                        help="a variable of the recipes, for example driver_version=580.95.05")
    arguments = parser.parse_args()
    try:
        for path in arguments.recipes:
            recipe = load(path, arguments.build, arguments.architecture, dict(arguments.set))
            archive, size, packed = write_archive(recipe, arguments.into)
            print(f"{recipe.reference():<58} {size / 1e6:7.1f} MB  compressed {packed / 1e6:6.1f} MB  {archive}")
    except RecipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
