#!/bin/sh
# nvidia-driver on a kernel that takes signed modules only (module.sig_enforce): it is told before anything is compiled,
# modules get the signature of the key that they are given, and a key that the kernel does not trust is named as such.
set -e
image=/image
kernel=$(uname -r)

fail() { echo "FAILED: $*"; tail -n 60 /run/log; exit 1; }
said() { grep -q "$1" /run/log || fail "not said: $1"; }
refuses() {
  reason=$1; shift
  status=0
  chroot $image /usr/bin/env DRIVER_VERSION=580.95.05 "$@" > /run/log 2>&1 || status=$?
  [ "$status" = 1 ] || fail "the exit status is $status"
  said "reason=$reason"
}

mount -t tmpfs tmpfs /run
mkdir -p $image/run/nvidia
mount -t proc proc $image/proc
mount --rbind /sys $image/sys
mount --rbind /dev $image/dev
[ "$(cat /sys/module/module/parameters/sig_enforce)" = Y ] || fail "this kernel takes modules without a signature"

echo "== without a key it is told before anything is unpacked"
refuses UnsignedModulesRefused nvidia-driver init
grep -q "of=prepare" /run/log && fail "it has begun to prepare"

echo "== the operator, which asks before an upgrade, is told the same"
: > $image/report
chroot $image /usr/bin/env DRIVER_VERSION=580.95.05 nvidia-driver preflight --report /report > /run/log 2>&1 ||
  fail "the preflight has not come to its end"
grep -q "^preflight: UnsignedModulesRefused: " $image/report || fail "the report is $(cat $image/report)"

echo "== modules are signed; that the kernel does not trust the key is the kernel's word"
refuses ModuleNotLoaded nvidia-driver init --sign /etc/keys/module.pem
said "not signed with a key that this kernel trusts"
[ ! -e /sys/module/nvidia ] || fail "nvidia is loaded"
[ ! -e /run/nvidia/nvidia-driver.pid ] || fail "the PID file is still there"
tail -c 28 $image/usr/lib/modules/$kernel/kernel/drivers/video/nvidia.ko | grep -q "Module signature appended" ||
  fail "the module has no signature"
echo "all is well"
