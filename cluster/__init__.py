"""The local cluster: real Kubernetes programs on one machine, in namespaces, with simulated GPUs.

`python3 -m cluster --help` lists the commands. Python 3.11 with python3-yaml is all it needs; what it
starts are etcd, the Kubernetes programs, containerd and runc themselves.
"""
