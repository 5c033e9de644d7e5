#!/bin/sh
# vfio-manage on a real kernel: loading, binding, groups, users, virtual functions, and runs that are cut off. NVIDIA's
# driver is played by pci-pf-stub, which takes any device whose id it is told (README.md).
set -e
H100=0000:00:04.0 T4=0000:00:05.0 AUDIO=0000:00:05.1 L4=0000:00:06.0 FOREIGN=0000:00:06.1 SWITCH=0000:00:07.0
A100=0000:01:00.0
devices=/sys/bus/pci/devices
stub=/sys/bus/pci/drivers/pci-pf-stub
export VFIO_MANAGE_TIMEOUT=0s

fail() { echo "FAILED: $*"; cat /run/said; vfio-manage status; exit 1; }
driver() { link=$(readlink "$devices/$1/driver" || true); echo "${link##*/}"; }
is() { has=$(driver "$1"); [ "$has" = "$2" ] || fail "$1 has driver '$has' and not '$2'"; }
# Runs vfio-manage, which must end with the status given first.
manage() {
  wanted=$1; shift
  status=0
  vfio-manage "$@" > /run/said 2>&1 3>&- || status=$?
  [ "$status" = "$wanted" ] || fail "vfio-manage $* ended with $status and not $wanted"
}
said() { grep -q "$1" /run/said || fail "not said: $1"; }
unforced() { [ "$(cat "$devices/$1/driver_override")" = "(null)" ] || fail "$1 has a driver forced on it"; }

modprobe pci-pf-stub
echo 1234 11e8 > $stub/new_id
for device in $H100 $T4 $AUDIO $L4 $FOREIGN $SWITCH; do is $device pci-pf-stub; done
is $A100 nvme

echo "== one device; its driver is loaded for it"
[ ! -e /sys/bus/pci/drivers/vfio-pci ] || fail "vfio-pci is loaded already"
manage 0 bind -d $H100
is $H100 vfio-pci
group=$(readlink $devices/$H100/iommu_group); group=${group##*/}
[ -c "/dev/vfio/$group" ] || fail "the GPU's group cannot be opened"
before=$(cat $devices/$H100/driver_override)
manage 0 bind -d $H100
[ "$(cat $devices/$H100/driver_override)" = "$before" ] || fail "what stood already was written"

echo "== all: a group goes whole, or not at all"
manage 1 bind --all
said "Failed to bind device $L4"
said IommuGroupShared
said "$FOREIGN (class .*, driver pci-pf-stub)"
for device in $H100 $T4 $AUDIO $A100; do is $device vfio-pci; done
for device in $L4 $FOREIGN $SWITCH; do is $device pci-pf-stub; done
unforced $L4
echo $FOREIGN > $stub/unbind
manage 0 bind --all
is $L4 vfio-pci
is $FOREIGN ""
is $SWITCH pci-pf-stub
BIND_NVSWITCHES=true manage 0 bind --all
is $SWITCH vfio-pci
vfio-manage status -o json > /run/said
[ "$(grep -c '"ready": true' /run/said)" = 5 ] || fail "not all are ready"

echo "== a user is named, keeps its GPU, and is waited for"
exec 3<>"/dev/vfio/$group"
manage 1 unbind -d $H100
said GpuInUse
said "sh (process $$)"
is $H100 vfio-pci
manage 1 unbind --all
is $H100 vfio-pci
is $T4 ""
is $A100 ""
: > /run/said
VFIO_MANAGE_TIMEOUT=120s vfio-manage unbind -d $H100 > /run/said 2>&1 3>&- &
while ! grep -q "Waiting for users" /run/said; do [ -d /proc/$! ] || fail "it did not wait"; done
exec 3>&-
wait $! || fail "it did not end when the user had gone"
is $H100 ""

echo "== taken back: no driver is forced, companions have theirs, GPUs wait for NVIDIA's"
manage 0 unbind --all --unbind-nvswitches
for device in $H100 $T4 $L4 $A100 $SWITCH; do is $device ""; unforced $device; done
is $AUDIO pci-pf-stub
unforced $AUDIO
manage 0 unbind --all

echo "== runs that are cut off are ended by the next one"
whole() {
  manage 0 bind --all
  for device in $H100 $T4 $AUDIO $L4 $A100; do is $device vfio-pci; done
}
apart() {
  manage 0 unbind --all
  for device in $H100 $T4 $L4; do echo $device > $stub/bind; done
  echo $A100 > /sys/bus/pci/drivers/nvme/bind
}
apart
echo > $devices/$T4/driver_override; whole; apart          # after the first write
echo $T4 > $stub/unbind; whole; apart                       # after the second
echo $T4 > $stub/unbind; echo vfio-pci > $devices/$T4/driver_override; whole; apart
echo $T4 > $stub/unbind; echo vfio-pci > $devices/$T4/driver_override
echo $T4 > /sys/bus/pci/drivers/vfio-pci/bind; whole; apart # the GPU without its companion
for round in 0 1 2 3 4 5 6 7; do
  vfio-manage bind --all > /run/said 2>&1 &
  turns=0
  while [ "$(driver $H100)" != vfio-pci ] && [ $turns -lt 400 ]; do turns=$((turns + 1)); done
  turns=0
  while [ $turns -lt $round ]; do driver $T4 > /run/turn; turns=$((turns + 1)); done
  kill -9 $! 2> /run/turn || true
  wait $! || true
  whole
  vfio-manage unbind --all > /run/said 2>&1 &
  turns=0
  while [ $turns -lt $round ]; do driver $T4 > /run/turn; turns=$((turns + 1)); done
  kill -9 $! 2> /run/turn || true
  wait $! || true
  apart
done

echo "== virtual functions go before their GPU does"
echo 0 > $devices/$A100/sriov_drivers_autoprobe
echo 2 > $devices/$A100/sriov_numvfs
[ -e $devices/$A100/virtfn1 ] || fail "there are no virtual functions"
manage 0 bind -d $A100
is $A100 vfio-pci
[ "$(cat $devices/$A100/sriov_numvfs)" = 0 ] || fail "virtual functions are left"

echo "== also where no driver is left that removes them, as when NVIDIA's was unloaded"
manage 0 unbind -d $A100
echo $A100 > /sys/bus/pci/drivers/nvme/bind
echo 2 > $devices/$A100/sriov_numvfs
echo $A100 > /sys/bus/pci/drivers/nvme/unbind
[ -e $devices/$A100/virtfn1 ] || fail "the virtual functions are gone already"
manage 0 bind -d $A100
is $A100 vfio-pci
[ "$(cat $devices/$A100/sriov_numvfs)" = 0 ] || fail "virtual functions are left"
# Cut off on the way.
manage 0 unbind -d $A100
echo pci-pf-stub > $devices/$A100/driver_override
echo $A100 > $stub/bind
manage 0 unbind --all
is $A100 ""
unforced $A100

echo "== what is plugged in later is followed; what somebody binds elsewhere is not"
manage 0 unbind --all --unbind-nvswitches
VFIO_MANAGE_FOLLOW=true vfio-manage bind --all > /run/followed 2>&1 &
follower=$!
while ! grep -q "are followed" /run/followed; do [ -d /proc/$follower ] || fail "it did not stay"; done
for device in $H100 $T4 $L4 $A100; do is $device vfio-pci; done
for device in $H100 $T4; do
  echo $device > /sys/bus/pci/drivers/vfio-pci/unbind
  echo pci-pf-stub > $devices/$device/driver_override
  echo $device > $stub/bind
done
# What is only said again is not news; what is somebody else's is left alone.
echo add > $devices/$H100/uevent
echo add > $devices/$FOREIGN/uevent
# Who makes virtual functions has a driver that does.
echo $A100 > /sys/bus/pci/drivers/vfio-pci/unbind
echo nvme > $devices/$A100/driver_override
echo $A100 > /sys/bus/pci/drivers/nvme/bind
echo 0 > $devices/$A100/sriov_drivers_autoprobe
echo 1 > $devices/$A100/sriov_numvfs
# The board is pulled and plugged in. A device has its own ids when it comes: the follower hears of it when it is disguised.
kill -STOP $follower
echo 1 > $devices/$AUDIO/remove
echo 1 > $devices/$T4/remove
[ ! -e $devices/$T4 ] || fail "the board is still there"
echo 1 > /sys/bus/pci/rescan
while [ "$(driver $AUDIO)" != pci-pf-stub ]; do :; done
grep -e $T4 -e $AUDIO /etc/disguises > /run/plugged
while read -r line; do disguise $line; done < /run/plugged
kill -CONT $follower
while [ "$(driver $T4)" != vfio-pci ]; do [ -d /proc/$follower ] || fail "it has ended"; done
is $H100 pci-pf-stub
kill $follower
wait $follower || fail "a stop is no failure"
is $H100 pci-pf-stub
is $A100 nvme
echo 0 > $devices/$A100/sriov_numvfs
manage 0 unbind --all

echo "== what is no GPU is no failure"
manage 0 bind -d $FOREIGN
said "is not an NVIDIA device"
manage 1 bind -d 0000:77:00.0
said "failed to get NVIDIA device"
echo "all is as it should be"
