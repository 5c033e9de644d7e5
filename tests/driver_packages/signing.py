"""Keys that repositories are signed with."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess


@dataclasses.dataclass(frozen=True)
class Key:
    name: str
    home: pathlib.Path  # GnuPG's folder

    def _gpg(self, *words: str, text: str | None = None) -> str:
        return subprocess.run(["gpg", "--batch", "--quiet", "--homedir", str(self.home), "--local-user", self.name,
                               "--pinentry-mode", "loopback", "--passphrase", "", *words],
                              check=True, capture_output=True, text=True, input=text).stdout

    @staticmethod
    def make(home: pathlib.Path, name: str) -> Key:
        home.mkdir(mode=0o700, exist_ok=True)
        key = Key(name, home)
        key._gpg("--quick-generate-key", name, "ed25519", "sign", "never")
        return key

    def public(self) -> str:
        return self._gpg("--armor", "--export", self.name)

    def sign_in_line(self, text: str) -> str:
        return self._gpg("--clearsign", text=text)

    def forget(self):
        """Ends the agent that gpg has started."""
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=False, capture_output=True)
