#!/bin/busybox sh
# The first process of a guest. Its root is the machine's, read-only; it becomes the lower layer of
# an overlay whose upper layer is in the guest's memory. What the kernel does not know of its command
# line (LAB_...) is the environment here; guest.py writes it.
set -eux
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

# Not busybox's own: that runs itself by /proc/self/exe, which still is the machine's /proc here.
/bin/mount -t proc proc /proc
mount -t sysfs sys /sys
grep -q ' /dev devtmpfs ' /proc/mounts || mount -t devtmpfs dev /dev
modules=/usr/lib/uml/modules
insmod "$modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko"

mount -t tmpfs -o size=75% upper /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work root /mnt/root
cd /mnt/root
for name in proc sys dev; do
    mount --bind "/$name" "$name"
done
mkdir -p lib/modules dev/pts dev/shm
mount -t hostfs -o "$modules,ro" modules lib/modules
mount -t devpts pts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t tmpfs -o mode=755 run run
mkdir run/lock
pivot_root . mnt

# The other guests of a link's network are behind the machine at its end.
ip link set lo up
link=0
for address in $LAB_ADDRESSES; do
    ip addr add "$address/32" dev "vec$link"
    ip link set "vec$link" up
    ip route add "${address%.*}.254" dev "vec$link"
    ip route add "${address%.*}.0/24" via "${address%.*}.254"
    link=$((link + 1))
done
[ -z "$LAB_ADDRESSES6" ] || modprobe ipv6
link=0
for address in $LAB_ADDRESSES6; do
    # busybox cannot leave out the second of looking for duplicates.
    /bin/ip addr add "$address/128" dev "vec$link" nodad
    ip route add "${address%::*}::fe" dev "vec$link"
    ip route add "${address%::*}::/64" via "${address%::*}::fe"
    link=$((link + 1))
done
hostname "$LAB_NAME"

[ -z "$LAB_SHARED" ] || { mkdir /results; mount -t hostfs -o "$LAB_SHARED" results /results; }
# LIO keeps its state in /etc/target if that is there when it is loaded, as packages of it see to.
mkdir -p /etc/target/pr /etc/target/alua
[ -z "$LAB_MODULES" ] || modprobe -a $LAB_MODULES
[ ! -d /sys/kernel/config ] || mount -t configfs config /sys/kernel/config

# What it exports, and what it is logged in to, is not for LVM to look at.
cat >/etc/lvm/lvmlocal.conf <<EOF
devices { global_filter = [ "a|^/dev/ubd|", "r|.*|" ] }
activation {
    monitoring = 0
    udev_sync = $LAB_UDEV
    udev_rules = $LAB_UDEV
}
EOF
echo "InitiatorName=iqn.2026-01.org.example:$LAB_NAME" >/etc/iscsi/initiatorname.iscsi

export HOME=/root LC_ALL=C.UTF-8
# udevd takes the pivoted root for a chroot, and does nothing in one.
export SYSTEMD_IGNORE_CHROOT=1
if [ "$LAB_UDEV" = 1 ]; then
    /lib/systemd/systemd-udevd --daemon
    # Disks only: of the terminals alone there are hundreds.
    udevadm trigger --subsystem-match=block
    udevadm settle
fi
"$LAB_PYTHON" -I -S "$LAB_AGENT" &
# Waiting, the first process takes away the ends of daemons that nobody else waits for.
wait
poweroff -f
