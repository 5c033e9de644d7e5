#!/bin/sh
# A machine whose kernel has no IOMMU: nothing is touched, and what to do is said.
set -e
modprobe pci-pf-stub
echo 1234 11e8 > /sys/bus/pci/drivers/pci-pf-stub/new_id
status=0
vfio-manage bind --all > /run/said 2>&1 || status=$?
cat /run/said
[ $status = 1 ]
grep -q IommuMissing /run/said
grep -q "this node is a virtual machine without an IOMMU" /run/said
[ ! -e /sys/bus/pci/drivers/vfio-pci ]
link=$(readlink /sys/bus/pci/devices/0000:00:04.0/driver)
[ "${link##*/}" = pci-pf-stub ]
[ "$(cat /sys/bus/pci/devices/0000:00:04.0/driver_override)" = "(null)" ]
