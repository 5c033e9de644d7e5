"""The cases of configurations.yaml: good and malformed configurations of device plugin and feature discovery."""

import pathlib

import yaml

HERE = pathlib.Path(__file__).resolve().parent
NODE = {"gpus": [{"profile": "H100-80", "count": 2}]}


def case(entry):
    env = entry.get("env", {})
    plugin = {"flags": entry.get("flags", []), "env": {"DRIVER_ROOT_CTR_PATH": "{root}"} | env,
              "config": entry.get("config"), "resources": 1}
    discovery = {"flags": [flag for flag in entry.get("flags", []) if "mig" in flag or "fail" in flag],
                 "env": {"LD_LIBRARY_PATH": "{libraries}", "DRIVER_ROOT_CTR_PATH": "{root}"} | env,
                 "config": entry.get("config")}
    return {"name": "configuration " + entry["name"], "seed": entry["name"], "questions": 2,
            "tags": entry.get("tags", []), "description": entry.get("description", NODE), "plugin": plugin,
            "discovery": discovery}


def cases():
    return [case(entry) for entry in yaml.safe_load((HERE / "configurations.yaml").read_text())]
