#!/bin/sh
# What virtual machines are given, on a real kernel: the device plugin for KubeVirt offers the GPUs that vfio-pci has and
# follows them; nvidia-vgpu-dm makes virtual functions and takes them back. What NVIDIA's driver shows of vGPUs lies over
# the folders of real functions here (sriov-manage below), for no kernel here has it.
set -e
H100=0000:00:04.0 T4=0000:00:05.0 A100=0000:01:00.0
devices=/sys/bus/pci/devices
sockets=/var/lib/kubelet/device-plugins
mkdir -p $sockets /usr/lib/nvidia

fail() { echo "FAILED: $*"; cat /run/said /run/plugin /run/seen 2> /dev/null; vfio-manage status; exit 1; }
# Runs a program that must end with the status given first.
ends() {
  wanted=$1; shift
  status=0
  "$@" > /run/said 2>&1 || status=$?
  [ "$status" = "$wanted" ] || fail "$* ended with $status and not $wanted"
}
group() { link=$(readlink $devices/$1/iommu_group); echo "${link##*/}"; }
functions() { cat $devices/$A100/sriov_numvfs; }

# What the kubelet is told is read until a line is like that. `forget` what was told before.
: > /run/seen
forget() { : > /run/seen; }
await() {
  until grep -qE "$1" /run/seen; do
    read -r -t 240 line <&5 || fail "the kubelet was never told: $1"
    echo "$line" >> /run/seen
    case $line in *'"error"'*) fail "$line";; esac
  done
}
ask() { forget; echo "$1" >&4; }

echo "== the device plugin offers what vfio-pci has"
ends 0 vfio-manage bind -d $H100
mkfifo /run/asked /run/told
test_kubelet $sockets < /run/asked > /run/told &
exec 4> /run/asked 5< /run/told
await serving
nvidia-kubevirt-gpu-device-plugin > /run/plugin 2>&1 &
plugin=$!
await '"resource":"nvidia.com/GH100_H100_SXM5_80GB"'
await '"list":\[\{"healthy":true,.*"resource":"nvidia.com/GH100_H100_SXM5_80GB"'
ask "{\"resource\": \"nvidia.com/GH100_H100_SXM5_80GB\", \"allocate\": [[\"$H100\"]]}"
await '"answer"'
for word in "\"host\":\"/dev/vfio/$(group $H100)\"" '"host":"/dev/vfio/vfio"' \
            "\"PCI_RESOURCE_NVIDIA_COM_GH100_H100_SXM5_80GB\":\"$H100\""; do
  grep -qF "$word" /run/seen || fail "the answer lacks $word"
done

echo "== it follows the kernel"
forget
ends 0 vfio-manage bind -d $A100
await '"list":\[\{"healthy":true,.*"resource":"nvidia.com/GA100_A100_SXM4_40GB"'
forget
ends 0 vfio-manage unbind -d $H100
await '"closed":.*"resource":"nvidia.com/GH100_H100_SXM5_80GB"'  # of this model there was one
forget
ends 0 vfio-manage bind -d $H100
await '"list":\[\{"healthy":true,.*"resource":"nvidia.com/GH100_H100_SXM5_80GB"'
kill $plugin
wait $plugin || true
exec 4>&-

echo "== virtual functions that offer no vGPU are taken back"
ends 0 vfio-manage unbind --all
echo $A100 > /sys/bus/pci/drivers/nvme/bind
echo 0 > $devices/$A100/sriov_drivers_autoprobe
cat > /run/vgpus.yaml <<'CONFIGURATION'
version: v1
vgpu-configs:
  two:
  - {devices: all, vgpu-devices: {}}
  - {device-filter: "0x20B010DE", devices: all, vgpu-devices: {A100-10C: 2}}
  none:
  - {devices: all, vgpu-devices: {}}
CONFIGURATION
dmesg | grep -q "pci 0000:01:00.1:" && fail "there were virtual functions before"
ends 1 nvidia-vgpu-dm apply -f /run/vgpus.yaml -c two
dmesg | grep -q "pci 0000:01:00.1:" || fail "there never were virtual functions"
[ "$(functions)" = 0 ] || fail "there are $(functions) virtual functions"

echo "== virtual functions are made, get their vGPUs, and go"
cat > /usr/lib/nvidia/sriov-manage <<'PROGRAM'
#!/bin/sh
set -e
folder=/sys/bus/pci/devices/$2
if [ "$1" = -d ]; then
  for link in "$folder"/virtfn*; do umount "$(readlink -f "$link")"; done
  echo 0 > "$folder/sriov_numvfs"
  exit
fi
cat "$folder/sriov_totalvfs" > "$folder/sriov_numvfs"
for link in "$folder"/virtfn*; do
  real=$(readlink -f "$link")
  shown=/run/shown/${real##*/}
  mkdir -p "$shown/nvidia"
  cp -P "$real/physfn" "$real/iommu_group" "$real/numa_node" "$real/config" "$shown"
  echo 0x10de > "$shown/vendor"
  echo 0x20b0 > "$shown/device"
  echo 0x030200 > "$shown/class"
  printf 'ID    : vGPU Name\n468   : NVIDIA A100-10C\n' > "$shown/nvidia/creatable_vgpu_types"
  echo 0 > "$shown/nvidia/current_vgpu_type"
  mount --bind "$shown" "$real"
done
PROGRAM
chmod +x /usr/lib/nvidia/sriov-manage
ends 0 nvidia-vgpu-dm apply -f /run/vgpus.yaml -c two
[ "$(functions)" = 4 ] || fail "there are $(functions) virtual functions"
[ "$(grep -l 468 $devices/$A100/virtfn*/nvidia/current_vgpu_type | wc -l)" = 2 ] || fail "not two vGPUs"
ends 0 nvidia-vgpu-dm assert -f /run/vgpus.yaml -c two
ends 1 nvidia-vgpu-dm assert -f /run/vgpus.yaml -c none
ends 0 nvidia-vgpu-dm apply -f /run/vgpus.yaml -c none
grep -q 468 $devices/$A100/virtfn*/nvidia/current_vgpu_type 2> /dev/null && fail "vGPUs are left"

[ "$(functions)" = 4 ] || fail "without vGPUs the functions stay, as NVIDIA's driver has them"

echo "== they go with their GPU when it is given away whole"
for link in $devices/$A100/virtfn*; do umount "$(readlink -f "$link")" 2> /dev/null || true; done
ends 0 vfio-manage bind -d $A100
[ "$(functions)" = 0 ] || fail "there are $(functions) virtual functions"
