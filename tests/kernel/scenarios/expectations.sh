#!/bin/sh
# The expectations on the real kernel. NVIDIA's driver is played by pci-pf-stub, which takes any device whose id it is
# told; the driver core knows QEMU's own ids, not the disguises.
set -e
modprobe vfio-pci
modprobe pci-pf-stub
echo 1234 11e8 > /sys/bus/pci/drivers/pci-pf-stub/new_id
exec sysfs-expectations --set gpu=0000:00:04.0 --set driver=pci-pf-stub --set "id=1234 11e8" \
  --set card=0000:00:05.0 --set companion=0000:00:05.1 \
  --set pf=0000:01:00.0 --set pf_driver=nvme --set "pf_id=1b36 0010" --set total=4 /expectations/*.yaml
