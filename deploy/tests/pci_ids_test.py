#!/usr/bin/env python3
"""The PCI ID database of the image, and the script that updates it."""

import contextlib
import importlib.util
import io
import pathlib
import tempfile
import unittest

import support

SPECIFICATION = importlib.util.spec_from_file_location("pci_ids", support.ROOT / "tools/pci_ids.py")
pci_ids = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(pci_ids)

OLD = "#\tVersion: 2025.01.01\n8086  Intel\n\t1111  Not this one\n10de  NVIDIA Corporation\n" \
      "\t1111  GA1 [One]\n\t\t10de 1234  A subsystem\n# a comment\n\t2222  GA2 [Two]\n\t3333  GA3 [Three]\n1234  Other\n"
NEW = "#\tVersion: 2026.01.01\n10de  NVIDIA Corporation\n\t1111  GA1 [One]\n\t2222  GA2 [Two Plus]\n\t4444  GA4 [four / 4.0]\n"


class PciIds(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.into = self.folder / "image"

    def update(self, text, *options):
        file = self.folder / "given"
        file.write_text(text, encoding="utf-8")
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = pci_ids.main([str(file), "--into", str(self.into), *options])
        return status, out.getvalue() + error.getvalue()

    def names(self):
        return pci_ids.read(self.into.read_text(encoding="utf-8"))

    def test_only_nvidias_devices_are_taken(self):
        self.assertEqual(self.update(OLD)[0], 0)
        self.assertEqual(self.names(), {"1111": "GA1 [One]", "2222": "GA2 [Two]", "3333": "GA3 [Three]"})
        text = self.into.read_text(encoding="utf-8")
        self.assertIn("version 2025.01.01", text)
        self.assertIn("Redistribution and use in source and binary forms", text)

    def test_a_device_keeps_its_name(self):
        self.update(OLD)
        status, said = self.update(NEW)
        self.assertEqual(status, 0)
        self.assertEqual(self.names()["2222"], "GA2 [Two]")
        self.assertIn("kept     2222  nvidia.com/GA2_TWO, elsewhere nvidia.com/GA2_TWO_PLUS", said)
        self.assertEqual(self.names()["4444"], "GA4 [four / 4.0]")
        self.assertIn("new      4444  nvidia.com/GA4_FOUR___4_0, until now nvidia.com/4444", said)
        self.assertIn("3333", self.names(), "a device that the new one lacks stays")
        self.update(NEW, "--rename")
        self.assertEqual(self.names()["2222"], "GA2 [Two Plus]")

    def test_looking_writes_nothing(self):
        self.update(OLD)
        before = self.into.read_bytes()
        status, said = self.update(NEW, "--dry-run", "--rename")
        self.assertEqual((status, self.into.read_bytes()), (0, before))
        self.assertIn("renamed  2222", said)

    def test_what_is_no_database_is_refused(self):
        self.update(OLD)
        before = self.into.read_bytes()
        for text in ("", "8086  Intel\n", "10de  NVIDIA\n\t1111  One\n"):
            status, said = self.update(text)
            self.assertEqual((status, self.into.read_bytes()), (1, before), said)

    def test_the_images_own_is_as_it_was_written(self):
        text = pci_ids.IMAGE_FILE.read_text(encoding="utf-8")
        names = pci_ids.read(text)
        self.assertEqual(pci_ids.text_of(names, pci_ids.version_of(text)), text)
        self.assertGreater(len(names), 1900)


if __name__ == "__main__":
    unittest.main()
