#!/bin/bash
# docker-bed.sh - a bed of REAL Docker hosts on one Linux machine.
#
# Every "host" is a bundle of namespaces (net + mount + pid + uts + ipc) with
#   * one address of its own on a shared bridge (10.77.0.11, .12, ...),
#   * its own dockerd + containerd (own data root, exec root, pid file, iptables, docker0),
#   * its own sshd, so that `ssh://root@10.77.0.11` works with the docker SDK,
#   * its own cgroup subtree (so a whole host can be limited, measured and frozen).
# Nothing is faked above the kernel: dockerd, runc, overlay2, NAT are the real ones.
#
#   docker-bed.sh up N            make (or complete) nodes 1..N; safe to repeat
#   docker-bed.sh down [--purge] [--now]  stop everything; --purge also deletes images and keys, --now kills
#   docker-bed.sh status          one line per node
#   docker-bed.sh env I           shell lines that point the docker CLI/SDK at node I (TLS)
#   docker-bed.sh exec I CMD...   run a command inside node I
#   Faults:
#   docker-bed.sh cut I | heal I            network partition: veth down / up
#   docker-bed.sh kill-dockerd I            SIGKILL dockerd (its containerd dies with it)
#   docker-bed.sh stop-dockerd I            SIGTERM dockerd (orderly stop)
#   docker-bed.sh start-dockerd I           start it again
#   docker-bed.sh crash I | boot I          power loss: every process of the node dies / boots again
#   docker-bed.sh freeze I | thaw I         hang: every process of the node stops running (cgroup freezer)
#   docker-bed.sh fill I | drain I          the disk of its data root is full (with BED_TMPFS=1)
#
# Needs root, and: docker.io iproute2 iptables util-linux openssl openssh-client tini|docker-init curl; openssh-server
# for the ssh way in. Beds with different BED_DIR, BED_NET and BED_BR (11 letters at most) live side by side.
# Settings (environment):
#   BED_DIR (${TMPDIR:-/tmp}/docker-bed/state)  BED_NET (10.77.0)  BED_BR (bed0)  BED_GPU (""; N puts a stand-in
#   nvidia-container-runtime-hook with N pretended GPUs on dockerd's PATH)  BED_NODE_MEM ("", e.g. 4g: limit of the
#   whole node)  BED_NODE_CPUS ("" e.g. 0 : CPU list; dockerd's NCPU follows it)
#   BED_DAEMON_JSON (file copied as each NEW node's daemon.json)  BED_TMPFS (0; 1: data roots on tmpfs)
set -euo pipefail

BED_DIR=${BED_DIR:-${TMPDIR:-/tmp}/docker-bed/state}
BED_NET=${BED_NET:-10.77.0}
BED_BR=${BED_BR:-bed0}
BED_GPU=${BED_GPU:-}
BED_NODE_MEM=${BED_NODE_MEM:-}
BED_NODE_CPUS=${BED_NODE_CPUS:-}
BED_DAEMON_JSON=${BED_DAEMON_JSON:-}
BED_TMPFS=${BED_TMPFS:-0}
TAG=docker-bed-$BED_BR                 # comment on the iptables rules, so that `down` finds its own
CG=/sys/fs/cgroup
SELF=$(readlink -f "$0")

die() { echo "docker-bed: $*" >&2; exit 1; }
addr() { echo "$BED_NET.$((10 + $1))"; }
dir()  { echo "$BED_DIR/nodes/n$1"; }
ns()   { echo "$BED_BR-n$1"; }

# --- is node I alive?  prints the pid (seen from here) of its init ------------------------------
init_pid() {
  local p; p=$(cat "$(dir "$1")/init.pid" 2>/dev/null) || return 1
  # guard against a recycled pid: the init's command line carries its node directory
  tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | grep -qF "$(dir "$1") " || return 1
  echo "$p"
}

# --- cgroups: <controller>/bed0/nI/{sys,...}; containers go below through --cgroup-parent ---------
cg_v2() { [ -e $CG/cgroup.controllers ]; }
cg_roots() { if cg_v2; then echo $CG; else for c in memory cpu cpuacct cpuset pids blkio freezer devices; do
               [ -d $CG/$c ] && echo $CG/$c; done; fi; }
cg_make() {
  local i=$1 r d
  for r in $(cg_roots); do
    for d in "$r/$BED_BR" "$r/$BED_BR/n$i" "$r/$BED_BR/n$i/sys"; do
      mkdir -p "$d"
      if cg_v2; then
        [ "$d" = "$r/$BED_BR/n$i/sys" ] || echo "+cpu +memory +pids +cpuset" >"$d/cgroup.subtree_control" 2>/dev/null || true
      elif [ "$(basename "$r")" = cpuset ]; then     # a new v1 cpuset is empty: copy the parent's
        cat "$d/../cpuset.cpus" >"$d/cpuset.cpus"; cat "$d/../cpuset.mems" >"$d/cpuset.mems"
      fi
    done
  done
  if [ -n "$BED_NODE_MEM" ]; then
    if cg_v2; then echo "${BED_NODE_MEM}" | numfmt --from=iec >"$CG/$BED_BR/n$i/memory.max"
    else echo "$BED_NODE_MEM" >"$CG/memory/$BED_BR/n$i/memory.limit_in_bytes"; fi
  fi
  if [ -n "$BED_NODE_CPUS" ]; then
    if cg_v2; then echo "$BED_NODE_CPUS" >"$CG/$BED_BR/n$i/cpuset.cpus"
    else echo "$BED_NODE_CPUS" >"$CG/cpuset/$BED_BR/n$i/sys/cpuset.cpus"
         echo "$BED_NODE_CPUS" >"$CG/cpuset/$BED_BR/n$i/cpuset.cpus"; fi
  fi
}
cg_enter() { local i=$1 r; for r in $(cg_roots); do echo $BASHPID >"$r/$BED_BR/n$i/sys/cgroup.procs" 2>/dev/null || true; done; }
cg_remove() { local r; for r in $CG $CG/*; do     # dockerd/runc also leave empty folders in other hierarchies
  [ -d "$r/$BED_BR" ] && find "$r/$BED_BR" -depth -type d -exec rmdir {} \; 2>/dev/null || true; done; }

# --- keys: one CA, one server certificate per node, one client certificate; one ssh key -----------
tls_leaf() { # dir cn usage san
  local d=$1 cn=$2 eku=$3 san=$4
  [ -s "$d/cert.pem" ] && return 0
  mkdir -p "$d"
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$cn" \
     -keyout "$d/key.pem" -out "$d/csr.pem" 2>/dev/null
  { echo "basicConstraints=critical,CA:FALSE"; echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$eku"; echo "subjectKeyIdentifier=hash"; echo "authorityKeyIdentifier=keyid"
    [ -z "$san" ] || echo "subjectAltName=$san"; } >"$d/ext"
  openssl x509 -req -in "$d/csr.pem" -CA "$BED_DIR/tls/ca.pem" -CAkey "$BED_DIR/tls/ca-key.pem" \
     -CAcreateserial -days 30 -extfile "$d/ext" -out "$d/cert.pem" 2>/dev/null
  cp "$BED_DIR/tls/ca.pem" "$d/ca.pem"; chmod 600 "$d/key.pem"; rm -f "$d/csr.pem" "$d/ext"
}
keys_common() {
  mkdir -p "$BED_DIR/tls" "$BED_DIR/home/.ssh"; chmod 700 "$BED_DIR/home" "$BED_DIR/home/.ssh"
  if [ ! -s "$BED_DIR/tls/ca.pem" ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=docker bed CA" \
      -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
      -keyout "$BED_DIR/tls/ca-key.pem" -out "$BED_DIR/tls/ca.pem" 2>/dev/null
  fi
  tls_leaf "$BED_DIR/tls/client" bed-client clientAuth ""
  [ -s "$BED_DIR/home/.ssh/id_ed25519" ] || ssh-keygen -q -t ed25519 -N "" -C docker-bed -f "$BED_DIR/home/.ssh/id_ed25519"
  # HOME=$BED_DIR/home is all a client needs: both OpenSSH (-F) and paramiko read these two files.
  cat >"$BED_DIR/home/.ssh/config" <<CFG
Host $BED_NET.*
  User root
  IdentityFile $BED_DIR/home/.ssh/id_ed25519
  UserKnownHostsFile $BED_DIR/home/.ssh/known_hosts
CFG
}
keys_node() {
  local i=$1 d a; d=$(dir "$i"); a=$(addr "$i"); mkdir -p "$d/ssh" "$d/data"
  tls_leaf "$d/tls" "n$i" serverAuth "IP:$a,IP:127.0.0.1,DNS:n$i,DNS:localhost"
  [ -s "$d/ssh/host_key" ] || ssh-keygen -q -t ed25519 -N "" -C "n$i" -f "$d/ssh/host_key"
  cp "$BED_DIR/home/.ssh/id_ed25519.pub" "$d/ssh/authorized_keys"
  touch "$BED_DIR/home/.ssh/known_hosts"
  # paramiko (the SDK) REJECTS unknown host keys, so the key is published beforehand
  grep -qF "$a " "$BED_DIR/home/.ssh/known_hosts" || echo "$a $(cut -d' ' -f1,2 "$d/ssh/host_key.pub")" >>"$BED_DIR/home/.ssh/known_hosts"
  cat >"$d/ssh/sshd_config" <<CFG
ListenAddress $a
Port 22
HostKey $d/ssh/host_key
AuthorizedKeysFile $d/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
PidFile none
# one HTTP connection of a Docker client = one ssh session on a shared ssh connection; 10 is sshd's own default,
# and a client has to live with it
MaxSessions ${BED_SSH_SESSIONS:-10}
MaxStartups 500
Subsystem sftp internal-sftp
CFG
  mkdir -p "$d/etc-docker"
  if [ ! -s "$d/etc-docker/daemon.json" ]; then
    if [ -n "$BED_DAEMON_JSON" ]; then cp "$BED_DAEMON_JSON" "$d/etc-docker/daemon.json"
    else cat >"$d/etc-docker/daemon.json" <<CFG
{
  "log-driver": "json-file",
  "log-opts": {"max-size": "10m", "max-file": "2"},
  "max-concurrent-downloads": 3,
  "insecure-registries": ["$BED_NET.1:5000", "$BED_NET.1:5001"]
}
CFG
    fi
  fi
}

# --- network -------------------------------------------------------------------------------------
ipt() { # add a rule once:  ipt <-A|-I> table chain rule...
  local op=$1 t=$2 c=$3; shift 3
  iptables -w -t "$t" -C "$c" "$@" -m comment --comment "$TAG" 2>/dev/null ||
    iptables -w -t "$t" "$op" "$c" "$@" -m comment --comment "$TAG"
}
net_common() {
  ip link show "$BED_BR" >/dev/null 2>&1 || ip link add "$BED_BR" type bridge
  ip addr replace "$BED_NET.1/24" dev "$BED_BR"; ip link set "$BED_BR" up
  sysctl -qw net.ipv4.ip_forward=1
  # A dockerd in the root namespace sets FORWARD to DROP, and with bridge-nf-call-iptables=1 even
  # frames between two ports of our bridge pass FORWARD: let both kinds through.
  ipt -I filter FORWARD -i "$BED_BR" -j ACCEPT
  ipt -I filter FORWARD -o "$BED_BR" -j ACCEPT
  ipt -A nat POSTROUTING -s "$BED_NET.0/24" ! -d "$BED_NET.0/24" ! -o "$BED_BR" -j MASQUERADE
}
net_node() {
  local i=$1 n v; n=$(ns "$i"); v="$BED_BR-v$i"
  ip netns list | grep -q "^$n\b" || ip netns add "$n"
  if ! ip link show "$v" >/dev/null 2>&1; then
    ip link add "$v" type veth peer name eth0 netns "$n"
    ip link set "$v" master "$BED_BR"
  fi
  ip link set "$v" up
  ip -n "$n" link set lo up
  ip -n "$n" addr replace "$(addr "$i")/24" dev eth0
  ip -n "$n" link set eth0 up
  ip -n "$n" route replace default via "$BED_NET.1"
}

# --- node life -----------------------------------------------------------------------------------
start_node() {
  local i=$1 d n; d=$(dir "$i"); n=$(ns "$i")
  init_pid "$i" >/dev/null && return 0
  cg_make "$i"; keys_node "$i"; net_node "$i"
  [ "$BED_TMPFS" = 0 ] || mountpoint -q "$d/data" || mount -t tmpfs -o size=8g "bed-n$i" "$d/data"
  rm -f "$d/init.pid" "$d/docker.sock"
  [ -z "$BED_GPU" ] || echo "$BED_GPU" >"$d/gpu"      # remembered per node, so that a restart keeps it
  ( cg_enter "$i"
    # nsenter, not `ip netns exec`: the latter remounts /sys and loses the cgroup mounts
    exec setsid nsenter --net="/run/netns/$n" -- \
      unshare --mount --pid --uts --ipc --fork --propagation private -- \
      env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 BED_DIR="$BED_DIR" BED_BR="$BED_BR" BED_NET="$BED_NET" \
      bash "$SELF" _init "$d" "n$i" "$(addr "$i")" "/$BED_BR/n$i" \
      </dev/null >>"$d/init.log" 2>&1 ) &
}

# runs as pid 1 of the new node, still seeing the old /proc
node_init() {
  local d=$1 name=$2 a=$3 parent=$4 pid rest
  read -r pid rest </proc/self/stat               # our pid as the outside sees it
  hostname "$name"
  mount -t tmpfs -o mode=755 tmpfs /run; mkdir -p /run/sshd /run/lock
  mount -t proc proc /proc
  # a /sys that shows this network namespace, with the cgroup mounts carried over
  mkdir -p "$d/cg"; mount --rbind $CG "$d/cg"; mount -t sysfs sysfs /sys
  mount --rbind "$d/cg" $CG; umount -l "$d/cg"
  # /etc/docker of its own: daemon.json, certs.d, and key.json - the engine ID of 20.10 is derived
  # from that key, so with a shared one all nodes would report the same ID
  mkdir -p /etc/docker; mount --bind "$d/etc-docker" /etc/docker
  # a hosts file with this node's own name (sudo, python's getfqdn, ...)
  { echo "127.0.0.1 localhost"; echo "$a $name"; } >"$d/hosts"; mount --bind "$d/hosts" /etc/hosts
  # what this machine's root has its shell do at each login (pyenv waits a minute for a lock) is not the node's business
  [ ! -e /root/.bashrc ] || mount --bind /dev/null /root/.bashrc
  echo "$pid" >"$d/init.pid.new"; mv "$d/init.pid.new" "$d/init.pid"
  local t; t=$(command -v tini || command -v docker-init)
  exec "$t" -- bash "$SELF" _main "$d" "$name" "$a" "$parent"
}
node_main() {
  local d=$1 name=$2 a=$3 parent=$4 sp
  sp=
  if [ -x /usr/sbin/sshd ]; then /usr/sbin/sshd -D -e -f "$d/ssh/sshd_config" >>"$d/sshd.log" 2>&1 & sp=$!; fi
  node_dockerd "$@"
  trap 'kill -TERM $(cat /run/docker.pid) 2>/dev/null; [ -z "$sp" ] || kill $sp; 
        for _ in $(seq 150); do [ -e /run/docker.pid ] && kill -0 $(cat /run/docker.pid) 2>/dev/null || break; sleep 0.1; done; exit 0' TERM
  while :; do sleep 1000 & wait $! || true; done
}
# A stand-in for NVIDIA's hook. dockerd 20.10 registers its "nvidia" device driver when it finds
# a program of this name on ITS PATH at start; runc runs it as a prestart hook of every container with
# a GPU request. This one checks the asked ids against a number of pretended GPUs (an unknown id fails
# the start, as the real one does) and puts /dev/nvidia<i> (a second /dev/null) into the container.
write_gpu_hook() {
  cat >"$1" <<HOOK
#!/bin/sh
GPUS=$2
HOOK
  cat >>"$1" <<'HOOK'
state=$(cat)
pid=$(printf %s "$state" | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
bundle=$(printf %s "$state" | sed -n 's/.*"bundle":"\([^"]*\)".*/\1/p')
want=$(grep -o '"NVIDIA_VISIBLE_DEVICES=[^"]*"' "$bundle/config.json" | tail -1 | sed 's/.*=//; s/"$//')
root=$(grep -o '"root":{"path":"[^"]*"' "$bundle/config.json" | sed 's/.*:"//; s/"$//')
[ "$want" != all ] || want=$(seq -s, 0 $((GPUS - 1)))
for i in $(echo "$want" | tr , ' '); do
  case $i in
    GPU-*) i=$(echo "$i" | sed 's/.*-//; s/^0*//'); i=${i:-0};;                # GPU-...-0003 is GPU 3
    *[!0-9]*|"") echo "nvidia-container-cli: device error: $i: unknown device" >&2; exit 1;;
  esac
  [ "$i" -lt "$GPUS" ] || { echo "nvidia-container-cli: device error: $i: unknown device" >&2; exit 1; }
  nsenter -t "$pid" -m -- mknod -m 666 "$root/dev/nvidia$i" c 1 3 2>/dev/null
done
exit 0
HOOK
  chmod +x "$1"
}
# containerd pauses after each collection for 50 times as long as that took. On a tmpfs that is some milliseconds, for
# ever: an idle node would take 2 % of a core. Its configuration is written by dockerd, so a program before the real one
# on dockerd's PATH adds to it.
write_containerd() { # FILE
  cat >"$1" <<CONTAINERD
#!/bin/sh
[ "\$1" != --config ] || printf '\n[plugins.scheduler]\n  pause_threshold = 0.0001\n' >>"\$2"
exec $(command -v containerd) "\$@"
CONTAINERD
  chmod +x "$1"
}
node_dockerd() {
  local d=$1 name=$2 a=$3 parent=$4 path=$1/bin:$PATH g
  [ -x "$d/bin/containerd" ] || { mkdir -p "$d/bin"; write_containerd "$d/bin/containerd"; }
  g=$(cat "$d/gpu" 2>/dev/null || echo 0)
  if [ "$g" != 0 ]; then
    mkdir -p "$d/gpubin"; write_gpu_hook "$d/gpubin/nvidia-container-runtime-hook" "$g"; path="$d/gpubin:$path"
  fi
  rm -f /run/docker.pid
  PATH=$path setsid dockerd \
    --data-root "$d/data" --exec-root /run/docker --pidfile /run/docker.pid \
    --cgroup-parent "$parent" \
    -H "unix://$d/docker.sock" -H unix:///run/docker.sock -H "tcp://$a:2376" \
    --tlsverify --tlscacert "$d/tls/ca.pem" --tlscert "$d/tls/cert.pem" --tlskey "$d/tls/key.pem" \
    </dev/null >>"$d/dockerd.log" 2>&1 &
}
in_node() { # run a command inside node I, in its cgroup
  local i=$1 p; shift; p=$(init_pid "$i") || die "node $i is not running"
  ( cg_enter "$i"; exec nsenter -t "$p" -m -u -i -n -p -- "$@" )
}
ping_node() { curl -s -m 2 --unix-socket "$(dir "$1")/docker.sock" http://d/_ping 2>/dev/null | grep -q OK; }
wait_node() { local k; for k in $(seq 3000); do ping_node "$1" && return 0; sleep 0.1; done
  tail -5 "$(dir "$1")/dockerd.log" >&2; die "node $1: dockerd did not answer in 300 s"; }

cmd_up() {
  local n=$1 i t0 t1
  [ "$(id -u)" = 0 ] || die "needs root"
  t0=$(date +%s%N); mkdir -p "$BED_DIR/nodes"; keys_common; net_common
  for i in $(seq "$n"); do start_node "$i"; done
  for i in $(seq "$n"); do wait_node "$i"; done
  t1=$(date +%s%N); echo "$n node(s) up in $(( (t1 - t0) / 1000000 )) ms; HOME=$BED_DIR/home for ssh, $BED_DIR/tls/client for TLS"
}
all_nodes() { ls -d "$BED_DIR"/nodes/n* 2>/dev/null | sed 's#.*/n##' | sort -n; }
cmd_down() {
  local i p k
  if [[ " $* " == *" --now "* ]]; then
    for i in $(all_nodes); do p=$(init_pid "$i") && kill -KILL "$p" || true; done
  fi
  for i in $(all_nodes); do p=$(init_pid "$i") && { echo THAWED >"$CG/freezer/$BED_BR/n$i/freezer.state" 2>/dev/null || true; kill -TERM "$p" 2>/dev/null || true; }; done
  for i in $(all_nodes); do
    for k in $(seq 200); do p=$(init_pid "$i") || break; [ "$k" -lt 180 ] || kill -KILL "$p" 2>/dev/null || true; sleep 0.1; done
    rm -f "$(dir "$i")/init.pid" "$(dir "$i")/docker.sock"
    umount -l "$(dir "$i")/data" 2>/dev/null || true
    ip link del "$BED_BR-v$i" 2>/dev/null || true
    ip netns del "$(ns "$i")" 2>/dev/null || true
  done
  ip link del "$BED_BR" 2>/dev/null || true
  iptables -w -D FORWARD -i "$BED_BR" -j ACCEPT -m comment --comment "$TAG" 2>/dev/null || true
  iptables -w -D FORWARD -o "$BED_BR" -j ACCEPT -m comment --comment "$TAG" 2>/dev/null || true
  iptables -w -t nat -D POSTROUTING -s "$BED_NET.0/24" ! -d "$BED_NET.0/24" ! -o "$BED_BR" -j MASQUERADE -m comment --comment "$TAG" 2>/dev/null || true
  for k in $(seq 20); do cg_remove; [ -d "$CG/memory/$BED_BR" ] || break; sleep 0.1; done
  if [[ " $* " == *" --purge "* ]]; then rm -rf --one-file-system "$BED_DIR"; fi
}
cmd_status() {
  local i p m
  printf '%-5s %-12s %-8s %-9s %-9s %-5s %s\n' node address init dockerd link "MB" containers
  for i in $(all_nodes); do
    p=$(init_pid "$i" || echo -)
    m=$(cat "$CG/memory/$BED_BR/n$i/memory.usage_in_bytes" 2>/dev/null || cat "$CG/$BED_BR/n$i/memory.current" 2>/dev/null || echo 0)
    printf '%-5s %-12s %-8s %-9s %-9s %-5s %s\n' "n$i" "$(addr "$i")" "$p" "$(ping_node "$i" && echo up || echo DOWN)" \
      "$(cat "/sys/class/net/$BED_BR-v$i/operstate" 2>/dev/null || echo none)" $((m / 1048576)) \
      "$(curl -s -m 2 --unix-socket "$(dir "$i")/docker.sock" http://d/info 2>/dev/null | grep -o '"Containers":[0-9]*,"ContainersRunning":[0-9]*' || true)"
  done
}
fz() { local i=$1 s=$2; if cg_v2; then [ "$s" = FROZEN ] && echo 1 >"$CG/$BED_BR/n$i/cgroup.freeze" || echo 0 >"$CG/$BED_BR/n$i/cgroup.freeze"
       else echo "$s" >"$CG/freezer/$BED_BR/n$i/freezer.state"; fi; }

case "${1:-}" in
  up) cmd_up "${2:?how many nodes}";;
  down) shift; cmd_down "$@";;
  status) cmd_status;;
  env) echo "export DOCKER_HOST=tcp://$(addr "$2"):2376 DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=$BED_DIR/tls/client";;
  exec) i=$2; shift 2; in_node "$i" "$@";;
  cut) ip link set "$BED_BR-v$2" down;;
  heal) ip link set "$BED_BR-v$2" up;;
  kill-dockerd) in_node "$2" sh -c 'kill -KILL $(cat /run/docker.pid)';;
  stop-dockerd) in_node "$2" sh -c 'p=$(cat /run/docker.pid); kill -TERM $p; while kill -0 $p 2>/dev/null; do sleep 0.05; done';;
  start-dockerd) [ -z "$BED_GPU" ] || echo "$BED_GPU" >"$(dir "$2")/gpu"; in_node "$2" bash "$SELF" _dockerd "$(dir "$2")" "n$2" "$(addr "$2")" "/$BED_BR/n$2"; wait_node "$2";;
  crash) p=$(init_pid "$2") && kill -KILL "$p"; rm -f "$(dir "$2")/init.pid";;
  boot) start_node "$2"; wait_node "$2";;
  freeze) fz "$2" FROZEN;;
  thaw) fz "$2" THAWED;;
  fill) d=$(dir "$2")/data                     # whoever writes meanwhile needs more than was just counted
        for k in 0 64 256 1024 4096 16384; do
          mount -o "remount,size=$(($(df -k --output=used "$d" | tail -1) + k))k" "$d" 2>/dev/null && exit 0; done
        die "node $2: its disk cannot be filled";;
  drain) mount -o remount,size=8g "$(dir "$2")/data";;
  _init) shift; node_init "$@";;
  _main) shift; node_main "$@";;
  _dockerd) shift; node_dockerd "$@";;
  *) sed -n '2,35p' "$SELF"; exit 2;;
esac
