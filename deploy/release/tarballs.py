"""Archives of which equal contents have equal bytes: names sorted, no time, no owner."""

from __future__ import annotations

import io
import pathlib
import tarfile
import zlib


def gzip(data: bytes) -> bytes:
    """Without a time stamp or a name."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def write(path: pathlib.Path, files: dict[str, tuple[bytes, int]]):
    """A .tar.gz of {member: (content, mode)}: regular files only, which every unpacker takes (krew's takes no links)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (content, mode) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    path.write_bytes(gzip(stream.getvalue()))


def settle(path: pathlib.Path):
    """Writes a .tgz that another tool has made anew, without the times of its making; members keep their order, which
    may mean something."""
    stream = io.BytesIO()
    with tarfile.open(path) as before, \
            tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as after:
        for member in before.getmembers():
            plain = tarfile.TarInfo(member.name)
            plain.size, plain.mode, plain.type = member.size, member.mode & 0o755, member.type
            after.addfile(plain, before.extractfile(member) if member.isfile() else None)
    path.write_bytes(gzip(stream.getvalue()))
