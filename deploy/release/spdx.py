"""The list of what is in an image: SPDX 2.3, JSON.

Three kinds of Debian packages are in it: those whose files lie in the image; those whose archives are linked into a
program; and those whose headers have code that was compiled into one. A package that only gives declarations for a
library that is listed anyway (libssl-dev for libssl3) is not listed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import pathlib
import re
import urllib.parse

import archives
import build
import debian
import inputs

_RELEASE = "12"  # Debian's
# Programs of the image, by build target, with their names in the image.
_PROGRAMS = {"bin/pitcrew": "pitcrew", "bin/nvidia-container-runtime": "nvidia-container-runtime"}
# Constants and structures of the kernel's interface: no code of it is in any program.
_WITHOUT_CODE = {"linux", "linux-libc-dev"}


def _identifier(text: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def _debian_package(package: debian.Package) -> dict:
    purl = (f"pkg:deb/debian/{urllib.parse.quote(package.name)}@{urllib.parse.quote(package.version)}"
            f"?arch={package.architecture}&distro=debian-{_RELEASE}")
    entry = {
        "SPDXID": _identifier(f"Debian-{package.name}"), "name": package.name, "versionInfo": package.version,
        "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "sourceInfo": f"Debian source package {package.source} {package.source_version}",
        "licenseConcluded": "NOASSERTION", "licenseDeclared": package.licence or "NOASSERTION",
        "licenseComments": package.licence_comment, "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}
    if re.match(r"https?://", package.homepage):
        entry["homepage"] = package.homepage
    return entry


def _own_package(name: str, version: str, purpose: str, **more) -> dict:
    return {"SPDXID": _identifier(name), "name": name, "versionInfo": version, "supplier": "Organization: Pitcrew",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "primaryPackagePurpose": purpose,
            "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION", **more}


def _packages(files: list[pathlib.Path], root: pathlib.Path) -> list[debian.Package]:
    """The packages of files below the root that the image is filled from, or of this machine's (a cross compiler's
    own). A file that no package has is refused: the list would leave it out."""
    named: dict[str, debian.Package] = {}
    for place in dict.fromkeys((root, pathlib.Path("/"))):
        owned = debian.owners(place, [file for file in files if file.is_relative_to(place)])
        for package in sorted(set(owned.values())):
            described = debian.describe(place, package)
            named[described.name] = described
        files = [file for file in files if file not in owned]
    if files:
        raise debian.DebianError(f"{files[0]} is of no Debian package (and {len(files) - 1} more): what is in the image "
                                 "would not be listed")
    return [named[name] for name in sorted(named)]


def _relation(source: str, kind: str, target: str, comment: str = "") -> dict:
    relation = {"spdxElementId": source, "relationshipType": kind, "relatedSpdxElement": target}
    return {**relation, "comment": comment} if comment else relation


def document(image: archives.Archive, recipe: build.Recipe, folder: pathlib.Path, created: datetime.datetime) -> dict:
    """Of one image: its archive, the recipe it was made by, and the build folder that the recipe takes programs from.
    `created` is written down as the document's time: equal inputs give equal documents."""
    folder = folder.absolute()
    root = recipe.target.root
    name = f"{image.name}-image"
    top = _own_package(name, image.tag, "CONTAINER", licenseDeclared="NOASSERTION", licenseComments=
                       "Pitcrew's own programs are under Apache-2.0; each package that is contained has its own licence",
                       checksums=[{"algorithm": "SHA256", "checksumValue": hashlib.sha256(
                           image.path.read_bytes()).hexdigest()}], packageFileName=image.path.name)
    own, relations = [top], [_relation("SPDXRef-DOCUMENT", "DESCRIBES", top["SPDXID"])]
    contained: dict[str, debian.Package] = {}

    def relate(packages: list[debian.Package], kind: str, other: str, comment: str = ""):
        for package in packages:
            contained[package.name] = package
            relations.append(_relation(other, kind, _identifier(f"Debian-{package.name}"), comment))

    relate(_packages([source for source in recipe.layer.sources.values()
                      if not source.is_relative_to(folder) and not source.is_relative_to(build.ROOT)], root),
           "CONTAINS", top["SPDXID"])
    for target, program in _PROGRAMS.items():
        entry = _own_package(program, image.tag, "APPLICATION", licenseDeclared="Apache-2.0")
        own.append(entry)
        relations.append(_relation(top["SPDXID"], "CONTAINS", entry["SPDXID"]))
        relate(_packages(inputs.linked_archives(folder, target), root), "STATIC_LINK", entry["SPDXID"],
               "given to the linker, which takes what the program uses")
    sources = {package.source for package in contained.values()} | _WITHOUT_CODE
    relate([package for package in _packages(inputs.compiled_headers(folder), root) if package.source not in sources],
           "STATIC_LINK", _identifier("pitcrew"), "headers whose code is compiled into the program")
    listed = own + [_debian_package(contained[one]) for one in sorted(contained)]
    stamp = created.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    title = f"{name}-{image.tag}-linux-{image.architecture}"
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": title,
        "documentNamespace": f"https://spdx.org/spdxdocs/{title}-{hashlib.sha256(image.config).hexdigest()}",
        "creationInfo": {"created": stamp, "creators": ["Organization: Pitcrew", "Tool: deploy/release/spdx.py"]},
        "documentDescribes": [top["SPDXID"]], "packages": listed, "relationships": relations}


def write(path: pathlib.Path, *arguments):
    path.write_text(json.dumps(document(*arguments), indent=1, sort_keys=True) + "\n", encoding="utf-8")
