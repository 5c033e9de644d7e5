"""Image archives that build.py has written, and the OCI layout that several of them become: one image for several
architectures, as registries hold it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import tarfile

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


class ArchiveError(Exception):
    """The archive cannot be used, or does not go with the others."""


@dataclasses.dataclass(frozen=True)
class Archive:
    path: pathlib.Path
    reference: str  # docker.io/pitcrew/pitcrew:v26.7.0
    architecture: str
    config: bytes
    layers: tuple[str, ...]  # members of the archive

    @property
    def name(self) -> str:
        """The image's own name, without registry and path."""
        return self.reference.rsplit(":", 1)[0].rsplit("/", 1)[-1]

    @property
    def tag(self) -> str:
        return self.reference.rsplit(":", 1)[1]


def read(path: pathlib.Path) -> Archive:
    try:
        with tarfile.open(path) as archive:
            manifest = json.load(archive.extractfile("manifest.json"))
            if len(manifest) != 1:
                raise ArchiveError(f"{path} holds {len(manifest)} images; one is expected")
            config = archive.extractfile(manifest[0]["Config"]).read()
            for layer in manifest[0]["Layers"]:
                archive.getmember(layer)
        return Archive(path, manifest[0]["RepoTags"][0], json.loads(config)["architecture"], config,
                       tuple(manifest[0]["Layers"]))
    except FileNotFoundError as error:
        raise ArchiveError(f"{path} is not there; `make image` writes it") from error
    except (tarfile.TarError, KeyError, ValueError, TypeError, IndexError, OSError) as error:
        raise ArchiveError(f"{path} is not an image archive ({error}); `make image` writes it anew") from error


def by_reference(archives: list[Archive]) -> dict[str, list[Archive]]:
    """The archives of each image, by architecture; an architecture that comes twice is refused."""
    found: dict[str, list[Archive]] = {}
    for archive in sorted(archives, key=lambda one: (one.reference, one.architecture)):
        others = found.setdefault(archive.reference, [])
        twin = next((one for one in others if one.architecture == archive.architecture), None)
        if twin:
            raise ArchiveError(f"{twin.path} and {archive.path} are both {archive.reference} for "
                               f"{archive.architecture}; name one of them")
        others.append(archive)
    return found


class _Blobs:
    def __init__(self, layout: pathlib.Path):
        self._folder = layout / "blobs/sha256"
        self._folder.mkdir(parents=True, exist_ok=True)

    def add(self, media_type: str, content: bytes, **more) -> dict:
        """Writes the blob and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self._folder / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content), **more}


def _platform(config: bytes) -> dict:
    told = json.loads(config)
    return {key: told[key] for key in ("architecture", "os", "variant") if key in told}


def _manifest(blobs: _Blobs, archive: Archive) -> dict:
    with tarfile.open(archive.path) as members:
        layers = [blobs.add(_LAYER, members.extractfile(name).read()) for name in archive.layers]
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": blobs.add(_CONFIG, archive.config),
                "layers": layers}
    return blobs.add(_MANIFEST, _json(manifest), platform=_platform(archive.config))


def _json(value) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def write_layout(archives: list[Archive], layout: pathlib.Path) -> str:
    """Writes one image as an OCI layout: an index of its architectures, or the one manifest when there is only one.
    Returns the digest that the image has in every registry; equal archives give equal digests."""
    blobs = _Blobs(layout)
    manifests = [_manifest(blobs, archive) for archive in archives]
    if len(manifests) == 1:
        top = {key: value for key, value in manifests[0].items() if key != "platform"}
    else:
        top = blobs.add(_INDEX, _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests}))
    top = {**top, "annotations": {"org.opencontainers.image.ref.name": archives[0].tag}}
    (layout / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    (layout / "index.json").write_bytes(_json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [top]}))
    return top["digest"]
