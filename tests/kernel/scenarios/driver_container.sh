#!/bin/sh
# nvidia-driver in a driver container on a real kernel: it compiles, loads and unloads modules that hold each other and
# refuse to go while they are in use. The modules, the installer and the daemon stand in for NVIDIA's
# (stand_in_driver); kernel, compiler, headers, mounts and signals are real.
. /support/driver_container.sh

echo "== what a wrong call says (driver-lifecycle.md #119, #108)"
status=0; in_image nvidia-driver > /run/refused 2>&1 || status=$?
is "$status" 1 "the exit status without a command"
refused "write one command"
refuses InvalidOption KERNEL_MODULE_TYPE=foo nvidia-driver init

echo "== preflight changes nothing"
in_image nvidia-driver preflight > /run/log 2>&1 || fail "preflight"
said "^kernel modules   compiled$"
[ ! -e $modules/nvidia.ko ] || fail "preflight has compiled"

echo "== modules are compiled, loaded with their parameters, and shown to the node (driver-lifecycle.md #107, #110, #117)"
printf 'NVreg_Tuning=7\n# a comment\n\nkind=told' > $image/drivers/nvidia.conf
mkdir -p /run/nvidia/validations
echo "GDS_ENABLED: false" > /run/nvidia/validations/.driver-ctr-ready
begin nvidia-driver init
await "of=prepare"
[ ! -e /run/nvidia/validations/.driver-ctr-ready ] || fail "an earlier container's word still stands"
is "$(cat /run/nvidia/validations/.driver-daemons-status)" NotReady "the daemons' status"
up
works 580.95.05
for module in nvidia nvidia_uvm nvidia_modeset; do loaded $module; done
gone nvidia_drm
: > $image/report
in_image nvidia-driver preflight --report /report > /run/log.preflight 2>&1 || fail "the preflight beside a driver"
is "$(cat $image/report)" "preflight: nothing is missing" "what the operator would read"
works 580.95.05
is "$(cat $image/etc/modprobe.d/nvidia.conf)" \
  "options nvidia NVreg_CoherentGPUMemoryMode=driver NVreg_Tuning=7 kind=told" "the module's configuration"
is "$(cat /sys/module/nvidia/parameters/NVreg_Tuning)" 7 "the parameter"
is "$(cat /sys/module/nvidia/parameters/NVreg_CoherentGPUMemoryMode)" driver "the parameter for coherent memory"
[ ! -e $image/etc/modprobe.d/nvidia-uvm.conf ] || fail "nvidia-uvm is told something"
is "$(tail -n 1 $image/usr/src/nvidia-580.95.05/kernel-open/kind)" "STAND_IN_KIND := open" "the kind of modules"
is "$(cat /sys/module/firmware_class/parameters/path)" /run/nvidia/driver/lib/firmware "the folder of firmware"
grep -q -- "--no-kernel-module --skip-module-load" $image/var/log/stand-in-installer.log || fail "the installer's words"

echo "== the pod's startup probe believes the daemons' word, and tells others (driver-lifecycle.md #113)"
sed '1,/startup-probe.sh: |/d; s/^    //' /manifest > $image/run/startup-probe.sh
probe() { chroot $image /bin/sh /run/startup-probe.sh > /run/probe 2>&1; }
probe || { cat /run/probe; fail "the probe of a driver that is up"; }
is "$(cat /run/nvidia/validations/.driver-ctr-ready)" "$(printf 'GDRCOPY_ENABLED: false\nGDS_ENABLED: false\nGPU_DIRECT_RDMA_ENABLED: false')" \
  "what the probe tells others"
echo NotReady > /run/nvidia/validations/.driver-daemons-status
! probe || fail "the probe takes daemons that are not ready for ready"
rm /run/nvidia/validations/.driver-daemons-status
probe || fail "the probe of an image that has no daemons"
echo Ready > /run/nvidia/validations/.driver-daemons-status

echo "== a second container leaves the first alone (driver-lifecycle.md #109)"
refuses DriverContainerRunning nvidia-driver init
works 580.95.05
loaded nvidia

echo "== asked to end while a program uses a GPU: all stays until it lets go (driver-lifecycle.md #112)"
chroot $image /usr/sbin/modprobe nvidia-drm
use_gpu
kill -TERM $driver
await "DriverInUse"
said "(process $user)"
for module in nvidia nvidia_uvm nvidia_modeset nvidia_drm; do loaded $module; done
kill -0 "$persistence" || fail "the persistence daemon was ended under a running program"
is "$(chroot /run/nvidia/driver /usr/bin/nvidia-smi)" 580.95.05 "the driver of the node"
kill $user
ends 0
all_gone
[ ! -e /run/nvidia/driver/usr ] || fail "the driver's root is still shown"
[ ! -e /run/nvidia/nvidia-driver.pid ] || fail "the PID file is still there"

echo "== what the image has is not compiled again"
begin nvidia-driver init
up
silent "compile the kernel modules"
works 580.95.05

echo "== killed when it is up: the next one keeps the loaded driver, which is the one that is wanted (driver-lifecycle.md #111)"
killed
since=$(stat -c %Z /sys/module/nvidia)
begin nvidia-driver init
up
said "it is kept"
silent "Kernel module unloaded"
silent "Kernel module loaded"
works 580.95.05
is "$(stat -c %Z /sys/module/nvidia)" "$since" "the time since which the module is there"

echo "== a daemon that fails does not cost a driver that is kept"
killed
touch /image/run/stand-in/persistenced-fails
refuses DaemonFailed nvidia-driver init
loaded nvidia

echo "== but one that this container has loaded goes again"
digest=222
refuses DaemonFailed nvidia-driver init
all_gone
[ ! -e /run/nvidia/nvidia-driver.pid ] || fail "the PID file is still there"
rm /image/run/stand-in/persistenced-fails

echo "== an upgrade while a program uses a GPU: the old driver stays whole"
begin nvidia-driver init
up
killed
use_gpu
version=590.10.01 digest=333
refuses DriverInUse KERNEL_MODULE_TYPE=proprietary nvidia-driver init
is "$(cat /sys/module/nvidia/version)" 580.95.05 "the loaded driver"
is "$(cat /run/nvidia/nvidia-driver.state)" 222 "the digest of the loaded driver"
kill $user; wait $user 2> /dev/null || true

echo "== and goes when nobody uses it"
begin KERNEL_MODULE_TYPE=proprietary nvidia-driver init
up
works 590.10.01
is "$(tail -n 1 $image/usr/src/nvidia-590.10.01/kernel/kind)" "STAND_IN_KIND := proprietary" "the kind of modules"

echo "== what cannot be built costs nothing that is loaded"
killed
version=580.95.05 digest=444
mv $image/usr/bin/gcc-12 $image/usr/bin/gcc-away
refuses CompilerMissing nvidia-driver init
ln -s /bin/false $image/usr/bin/gcc-12
refuses ProgramFailed nvidia-driver init
refused "cannot compile the kernel modules"
mv $image/usr/bin/gcc-away $image/usr/bin/gcc-12
mv $image/usr/src/linux-headers-$kernel $image/headers-away  # and the link to it leads nowhere
refuses KernelHeadersMissing nvidia-driver init
mv $image/headers-away $image/usr/src/linux-headers-$kernel
version=575.1
refuses NoModulesForKernel nvidia-driver init
refused "only NVIDIA-Linux-x86_64-580.95.05.run, NVIDIA-Linux-x86_64-590.10.01.run"
is "$(cat /sys/module/nvidia/version)" 590.10.01 "the loaded driver"
is "$(cat /run/nvidia/nvidia-driver.state)" 333 "the digest of the loaded driver"

echo "== a node that runs another kernel than its image is for"
rm $image/drivers/*.run
mkdir -p $image/usr/lib/modules/6.1.0-1-old/kernel/drivers
mv $modules $image/usr/lib/modules/6.1.0-1-old/kernel/drivers/video
chroot $image /usr/sbin/depmod $kernel
chroot $image /usr/sbin/depmod 6.1.0-1-old 2> /dev/null  # it has no list of built-in modules
version=590.10.01
refuses NoModulesForKernel nvidia-driver init
refused "the node's kernel is $kernel, and this image has modules for 6.1.0-1-old only"

echo "== nvidia-peermem, by the container that waits for both drivers"
[ "$(in_image nvidia-driver probe_nvidia_peermem > /run/log 2>&1; echo $?)" = 0 ] || fail "the probe, without a network driver"
echo "all is well"
