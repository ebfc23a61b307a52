#!/bin/busybox sh
# The first process of a guest of `cargo xtask guests`: a host of a pod, from its start on.
#
# Ports: ttyS0 the kernel's, ttyS1 commands and their answers, ttyS2 what the application says, ttyS3 agents, monitors and fences.
# The kernel's command line says which host this is (cenote.host) and where the pool lies (cenote.memory), and whether
# its agent tells the other one by datagrams (cenote.tells).
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
for word in $(cat /proc/cmdline); do
    case $word in cenote.*) export "${word#cenote.}" ;; esac
done
echo 'root:x:0:0::/:/bin/sh
cenote:x:4242:4242::/:/bin/sh' >/etc/passwd
echo 'cenote:x:4242:' >/etc/group
exec 3<>/dev/ttyS1 4<>/dev/ttyS2 5<>/dev/ttyS3
for port in 1 2 3; do stty -F /dev/ttyS$port raw -echo; done

# Sets POOL, where the pool lies; LOCKS, the option that says where its liveness locks do.
find_pool() {
    POOL= LOCKS=
    case $memory in
    ivshmem)
        for device in /sys/bus/pci/devices/*; do
            [ "$(cat "$device/vendor" "$device/device" | tr '\n' ' ')" = "0x1af4 0x1110 " ] || continue
            echo 1 >"$device/enable"
            POOL=$device/resource2
        done
        ;;
    dax)
        for module in libnvdimm nfit nd_btt nd_pmem device_dax dax_pmem; do
            [ -e "/sys/module/$module" ] || insmod "/modules/$module.ko"
        done
        for device in /dev/dax*; do
            [ -c "$device" ] && POOL=$device
        done
        LOCKS="--lock-file /run/cenote.lock"
        ;;
    esac
    [ -n "$POOL" ] || return 1
    # For the application's user, as udev and tmpfiles would have it.
    [ -n "$LOCKS" ] && : >>/run/cenote.lock && chgrp cenote /run/cenote.lock && chmod 660 /run/cenote.lock
    chgrp cenote "$POOL" && chmod 660 "$POOL"
}

# Makes a DAX device of a new NVDIMM, as `ndctl create-namespace --mode=devdax` does.
make_dax() {
    echo namespace0.0 >/sys/bus/nd/drivers/nd_pmem/unbind
    cd /sys/bus/nd/devices/dax0.0 || return 1
    echo 2097152 >align
    cat /proc/sys/kernel/random/uuid >uuid
    echo ram >mode
    echo namespace0.0 >namespace
    echo dax0.0 >/sys/bus/nd/drivers/dax_pmem/bind
}

# keep NAME COMMAND...: runs it again and again, until /run/no-NAME is there. Its lines are said with its name and this run's number.
keep() {
    name=$1
    shift
    while [ ! -e "/run/no-$name" ]; do
        "$@" 2>&1 | while read -r line; do echo "$name $RUN $line"; done >&5
        sleep 0.2
    done
}

# The same for the application, as a user of its own; what it acknowledges has a port of its own.
keep_ledger() {
    while [ ! -e /run/no-ledger ]; do
        su cenote -c "exec ledger $POOL write --host $host --run $RUN $LOCKS" >&4 2>/run/ledger.err
        while read -r line; do echo "ledger $RUN $line"; done </run/ledger.err >&5
        sleep 1
    done
}

# The processes whose command line begins so.
pids() {
    for process in /proc/[0-9]*; do
        case $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null) in "$1"*) echo "${process#/proc/}" ;; esac
    done
}

# watch GROUP: says what members do.
watch() {
    cenote --json group watch "$POOL" "$1" --host $host $LOCKS 2>&1 | while read -r line; do echo "told $line"; done >&5
}

# join GROUP NAME: a member that is killed by `kill_member`.
join() {
    cenote --json group join "$POOL" "$1" --id "$2" --host $host $LOCKS >/dev/null 2>&1 &
    echo $! >/run/member
}

kill_member() {
    kill -9 "$(cat /run/member)"
    echo killed >&5
}

start() {
    RUN=$1
    find_pool || return 1
    PEERS=
    if [ "$tells" = 1 ]; then
        insmod /modules/e1000.ko
        ip link set eth0 up
        ip address add 10.0.0.$host/24 dev eth0
        PEERS="--listen 10.0.0.$host:7411 --peer 10.0.0.$((3 - host)):7411"
    fi
    keep agent cenote --json agent $POOL --host $host $LOCKS $PEERS &
    keep monitor cenote --json monitor $POOL --host $((host + 2)) --fence /fence --poll 100ms --missed 20 $LOCKS &
    keep_ledger &
}

# What fences are told.
while read -r word host_down generation <&5; do
    [ "$word" = down ] && : >"/run/down-$host_down-$generation"
done &

find_pool
boot=$(cat /proc/sys/kernel/random/boot_id)
echo "ready $boot" >&3
while read -r word rest <&3; do
    case $word in
    # `start BOOT RUN`: said to this start of the machine, and not to one before.
    start) [ "${rest% *}" = "$boot" ] && start "${rest#* }" ;;
    do)
        (eval "$rest") </dev/null >/run/answer 2>&1
        code=$?
        while read -r line; do echo "| $line"; done </run/answer >&3
        echo "done $code" >&3
        ;;
    esac
done
