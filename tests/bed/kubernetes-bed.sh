#!/bin/bash
# kubernetes-bed.sh - a REAL small Kubernetes cluster on one Debian 12 machine, for tests.
#
# apiserver (TLS, RBAC, NodeRestriction), controller-manager, scheduler and kubelets are compiled from Debian's own
# source package; etcd and kubectl are Debian's. Every node is a docker-bed.sh host (own net/mount/pid/uts namespaces and
# dockerd) with a kubelet (dockershim). Pods have routed addresses of their own; no kube-proxy (only the address of
# kubernetes.default works), no DNS, no CNI. A device plugin serves pretended nvidia.com/gpu with ids; example.com/gpu is patched on.
#
#   kubernetes-bed.sh install CACHE_DIR        fetch and compile once; nothing if it is there. Exit code 3: this
#                                              machine cannot have it (no sources to fetch, not root, ...)
#   kubernetes-bed.sh start DIR [NODES=2]      start, wait until all is Ready, print what to export
#   kubernetes-bed.sh stop DIR                 stop all of it, remove all but the logs
#   kubernetes-bed.sh status DIR               one line per process and node; exit 0 when the API answers
#   kubernetes-bed.sh node-down DIR N [MODE]   cut (default: network cut, pods run on) | kill (SIGKILL the kubelet)
#                                              | hang (SIGSTOP the kubelet) | freeze (the whole node hangs) | crash (power loss)
#   kubernetes-bed.sh node-up DIR N            undo any of them; waits until the node is Ready
#   kubernetes-bed.sh api-down DIR [kill|hang] SIGKILL or SIGSTOP the apiserver; api-up DIR undoes it
#
# DIR/kubeconfig is the administrator, DIR/kubeconfig-portal the service account that the manifests in K8S_RIGHTS make.
# Each node's dockerd (unix://DIR/bed/nodes/nI/docker.sock) has the image longshore/sample:1 (busybox). Logs: DIR/log.
# Settings: K8S_CACHE (~/.cache/longshore/kubernetes)  BED_SH (docker-bed.sh beside it)  K8S_GPUS (2 of each kind per node)
#   K8S_GRACE (40: seconds without a sign of life until a node is Unknown)  K8S_EVICT (30: default toleration of
#   unreachable/not-ready pods)  K8S_RIGHTS (Dockerfiles/kubernetes/rights)  K8S_API_FLAGS (more apiserver flags)  K8S_KEEP_WORK (1: keep sources and Go cache)
# Needs root, docker.io busybox-static iproute2 iptables util-linux procps openssl curl, cgroup v1, ~3 GB of disk while compiling.
# Versions: Kubernetes 1.20.2 (Go 1.19.8), etcd 3.4.23, Docker 20.10.24, kernel 6.18.
# Times (2 cores, some other load): install 5 min 18 s, start 11-13 s, stop 2 s; idle 0.5 GB (RSS 0.9); 3 one-second pods/s.
set -euo pipefail
SELF=$(readlink -f "$0"); HERE=$(dirname "$SELF")
DEBS=(golang-1.19-go golang-1.19-src etcd-server kubernetes-client socat)
VERSION=v1.20.2
die() { echo "kubernetes-bed: $*" >&2; exit 1; }
cannot() { echo "kubernetes-bed: $*" >&2; exit 3; }   # nothing is wrong but where we are
say() { echo "kubernetes-bed: $*" >&2; }
# ------------------------------------------------------------------ install
apt_lists() {   # lists of our own in CACHE/apt: the machine's sources plus deb-src; the system stays as it is
  local a=$CACHE/apt f; mkdir -p "$a"/{parts,state/lists/partial,cache/archives/partial}
  for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$f" ] || sed -nE 's/^deb(-src)? (.*)/deb \2\ndeb-src \2/p' "$f" >"$a/parts/$(basename "$f" .list).list"; done
  for f in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$f" ] || sed -E 's/^Types:.*/Types: deb deb-src/' "$f" >"$a/parts/$(basename "$f")"; done
  OPTS=(-q -o APT::Sandbox::User="$(id -un)" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$a/parts"
        -o Dir::State="$a/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$a/cache"
        -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
  apt-get "${OPTS[@]}" update >>"$LOG" 2>&1 || cannot "apt-get update failed, see $LOG"
}
cmd_install() {
  [ "$(id -u)" = 0 ] || cannot "needs root"
  [ -d /sys/fs/cgroup/memory ] || cannot "the kubelet of $VERSION needs the first version of control groups"
  command -v apt-get dpkg-deb >/dev/null || cannot "needs Debian's package tools"
  CACHE=$(mkdir -p "$1"; cd "$1"; pwd -P); LOG=$CACHE/install.log
  exec 9>"$CACHE/install.lock"; flock 9
  if [ -e "$CACHE/bin/done-$VERSION" ]; then echo "already installed in $CACHE/bin (0 s)"; return; fi
  local t0=$SECONDS t k d f w=$CACHE/work flags; rm -rf "$w"; mkdir -p "$w/dl" "$CACHE/bin"
  [ "$(df -Pm "$CACHE" | awk 'NR == 2 {print $4}')" -gt 4000 ] || cannot "needs 4 GB of disk in $CACHE"
  t=$SECONDS; apt_lists
  ( cd "$w/dl"; apt-get "${OPTS[@]}" download "${DEBS[@]}"; apt-get "${OPTS[@]}" --download-only source kubernetes ) >>"$LOG" 2>&1 ||
    cannot "apt-get could not download Debian's Kubernetes, see $LOG"
  for d in "$w"/dl/*.deb; do dpkg-deb -x "$d" "$w/root"; done
  k=$w/go/src/k8s.io/kubernetes; mkdir -p "$k"
  tar -xzf "$w"/dl/kubernetes_*.orig.tar.gz --strip-components=1 -C "$k"   # Debian's patches touch kubectl only
  cp "$w"/root/usr/bin/{etcd,kubectl,socat} "$CACHE/bin/"; say "fetched and unpacked: $((SECONDS - t)) s"
  # Without CAP_SYS_RESOURCE (this kind of VM) the kernel refuses the negative oom_score_adj that the kubelet gives
  # pause containers and Guaranteed pods, and runc then fails. Hence these two values.
  sed -i 's/defaultSandboxOOMAdj int = -998/defaultSandboxOOMAdj int = 0/' "$k/pkg/kubelet/dockershim/docker_sandbox.go"
  sed -i 's/return guaranteedOOMScoreAdj$/return 0/' "$k/pkg/kubelet/qos/policy.go"
  # reflect2 1.0.1 with Go 1.18+: the first JSON answer with a map in "pretty" form (that is what curl asks for by its
  # User-Agent) ended the whole apiserver with a fault; mapiterinit gets the shape it has there (as reflect2 1.0.2 does).
  f=$k/vendor/github.com/modern-go/reflect2/unsafe_link.go
  sed -i -e 's#^//go:linkname mapiterinit reflect.mapiterinit$#//go:noinline#' -e 's/^func mapiterinit(.*hiter$/& {\
\tit := new(hiter118); mapiterinit118(rtype, m, unsafe.Pointer(it)); return (*hiter)(unsafe.Pointer(it)) }/' "$f"
  sed -i "$(($(grep -n '^func mapiterinit(' "$f" | cut -d: -f1) - 2)){s#^//go:noescape##}" "$f"
  cat >>"$f" <<'GO'
type hiter118 struct { key, value, t, h, buckets, bptr, overflow, oldoverflow unsafe.Pointer
	startBucket uintptr; offset uint8; wrapped bool; b, i uint8; bucket, checkBucket uintptr }
//go:noescape
//go:linkname mapiterinit118 reflect.mapiterinit
func mapiterinit118(rtype, m, it unsafe.Pointer)
GO
  gpu_plugin_source "$k"
  export GOROOT=$w/root/usr/lib/go-1.19 GOPATH=$w/go GOCACHE=$w/gocache GO111MODULE=off CGO_ENABLED=0 GOFLAGS=-trimpath GOTOOLCHAIN=local
  export PATH=$GOROOT/bin:$PATH TMPDIR=$w
  cd "$k"; d=k8s.io/kubernetes/vendor/k8s.io
  flags="-s -w"; for t in "$d/component-base/version" "$d/client-go/pkg/version"; do
    flags+=" -X $t.gitVersion=$VERSION -X $t.gitMajor=1 -X $t.gitMinor=20 -X $t.gitTreeState=debian"; done
  t=$SECONDS; go build -o "$w/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen >>"$LOG" 2>&1 || die "openapi-gen, see $LOG"
  # the same inputs as Makefile.generated_files: every package that carries the tag
  d=$(cd "$k"; grep -rl --include='*.go' '+k8s:openapi-gen=' vendor/k8s.io/*/ pkg plugin cmd 2>/dev/null |
      grep -vE '^vendor/k8s.io/(code-generator|sample-|kube-openapi|gengo)|_test.go$|/testdata/|/_' |
      xargs -n1 dirname | sort -u | sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
  "$w/openapi-gen" --logtostderr -i "$d" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h hack/boilerplate/boilerplate.generatego.txt -r "$w/violations" >>"$LOG" 2>&1 || die "openapi generation, see $LOG"
  say "openapi generated: $((SECONDS - t)) s"
  for d in kube-apiserver kube-controller-manager kube-scheduler kubelet bed-gpu-plugin; do
    t=$SECONDS; go build -ldflags "$flags" -o "$CACHE/bin/$d" "./cmd/$d" >>"$LOG" 2>&1 || die "$d did not compile, see $LOG"
    say "$d compiled: $((SECONDS - t)) s"; done
  cd /; chmod -R u+w "$w"; [ -n "${K8S_KEEP_WORK:-}" ] || rm -rf "$w" "$CACHE/apt"
  touch "$CACHE/bin/done-$VERSION"; echo "installed in $CACHE/bin in $((SECONDS - t0)) s ($(du -sm "$CACHE/bin" | cut -f1) MB)"
}
# A device plugin (the kubelet's own stub, serving pretended GPUs): ids are assigned by the kubelet, as with real ones.
gpu_plugin_source() {
  mkdir -p "$1/cmd/bed-gpu-plugin"; cat >"$1/cmd/bed-gpu-plugin/main.go" <<'GO'
package main // bed-gpu-plugin RESOURCE NODE COUNT DIR
import ("fmt"; "os"; "strconv"; "strings"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	dm "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager")
func main() {
	n, _ := strconv.Atoi(os.Args[3]); devs := []*api.Device{}
	for i := 0; i < n; i++ { devs = append(devs, &api.Device{ID: fmt.Sprintf("GPU-%s-%d", os.Args[2], i), Health: api.Healthy}) }
	p := dm.NewDevicePluginStub(devs, api.DevicePluginPath+"bed-gpu.sock", os.Args[1], false, false)
	p.SetAllocFunc(func(r *api.AllocateRequest, _ map[string]api.Device) (*api.AllocateResponse, error) {
		out := &api.AllocateResponse{}; for _, c := range r.ContainerRequests { out.ContainerResponses = append(out.ContainerResponses,
			&api.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(c.DevicesIDs, ",")}}) }
		return out, nil })
	if err := p.Start(); err != nil { panic(err) }
	if err := p.Register(api.KubeletSocket, os.Args[1], api.DevicePluginPath); err != nil { panic(err) }
	select {} }
GO
}
# ------------------------------------------------------------------ settings of one cluster, kept in DIR/conf
open_dir() {   # open_dir DIR: sets DIR, NODES, BR, NET, POD, LO, CACHE
  DIR=$(cd "$1" 2>/dev/null && pwd -P) && [ -s "$DIR/conf" ] || die "no cluster in $1"; . "$DIR/conf"
  PKI=$DIR/pki; BIN=$CACHE/bin; API=https://$NET.1:6443
}
new_conf() {   # networks no one uses: nodes 10.A.B.11+, pods 100.X.<node>.0/24, loopback services 127.A.B.1
  local h a b k; h=$(cksum <<<"$DIR" | cut -d' ' -f1)
  for k in $(seq 0 20); do
    a=$(( (h + k * 7) % 64 )); b=$(( h / 64 % 250 )); BR=$(printf k%02x%02x $a $b); POD=100.$((64 + a))
    NET=10.$((100 + a)).$b; ip link show "$BR" >/dev/null 2>&1 || ip route | grep -qE "^($POD|$NET)\." || break
  done
  printf 'NODES=%s BR=%s NET=%s POD=%s LO=%s CACHE=%q\n' "$1" "$BR" "$NET" "$POD" "127.$((100 + a)).$b.1" "$CACHE" >"$DIR/conf"
}
bed() { BED_DIR=$DIR/bed BED_NET=$NET BED_BR=$BR bash "$BED_SH" "$@"; }
addr() { echo "$NET.$((10 + $1))"; }
kc() { "$BIN/kubectl" --kubeconfig "$DIR/kubeconfig" "$@"; }
kapi() { local path=$1; shift; curl -sS -f -m 100 --cacert "$PKI/ca.crt" --cert "$PKI/admin.crt" --key "$PKI/admin.key" "$API$path" "$@"; }
# ------------------------------------------------------------------ keys
leaf() {   # leaf NAME SUBJECT USAGE [SAN]
  [ ! -s "$PKI/$1.crt" ] || return 0
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout "$PKI/$1.key" -out "$PKI/$1.csr" 2>/dev/null
  { echo "basicConstraints=critical,CA:FALSE"; echo "keyUsage=critical,digitalSignature"; echo "extendedKeyUsage=$3"
    [ -z "${4:-}" ] || echo "subjectAltName=$4"; } >"$PKI/$1.ext"
  openssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -days 30 \
    -extfile "$PKI/$1.ext" -out "$PKI/$1.crt" 2>/dev/null; rm "$PKI/$1.csr" "$PKI/$1.ext"
}
kubeconfig() {   # kubeconfig FILE USER-LINES [NAMESPACE]
  ( umask 077; cat >"$1" <<Y
apiVersion: v1
kind: Config
clusters: [{name: bed, cluster: {server: "$API", certificate-authority-data: $(base64 -w0 <"$PKI/ca.crt")}}]
users: [{name: user, user: {$2}}]
contexts: [{name: bed, context: {cluster: bed, user: user, namespace: ${3:-default}}}]
current-context: bed
Y
  )
}
cert_user() { echo "client-certificate-data: $(base64 -w0 <"$PKI/$1.crt"), client-key-data: $(base64 -w0 <"$PKI/$1.key")"; }
make_keys() {
  local i c; mkdir -p "$PKI"; chmod 700 "$PKI"
  [ -s "$PKI/ca.crt" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=kubernetes bed CA" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout "$PKI/ca.key" -out "$PKI/ca.crt" 2>/dev/null
  [ -s "$PKI/sa.pub" ] || { openssl genrsa -out "$PKI/sa.key" 2048 2>/dev/null; openssl rsa -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub" 2>/dev/null; }
  leaf server /CN=kube-apiserver serverAuth "IP:$NET.1,IP:$LO,IP:127.0.0.1,IP:$SVC.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc"
  leaf local /CN=local serverAuth "IP:$LO"
  leaf to-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
  leaf admin /O=system:masters/CN=admin clientAuth
  leaf kube-controller-manager /CN=system:kube-controller-manager clientAuth
  leaf kube-scheduler /CN=system:kube-scheduler clientAuth
  for c in kube-controller-manager kube-scheduler; do kubeconfig "$PKI/$c.conf" "$(cert_user $c)"; done
  kubeconfig "$DIR/kubeconfig" "$(cert_user admin)"
  for i in $(seq "$NODES"); do
    leaf "n$i" "/O=system:nodes/CN=system:node:n$i" clientAuth,serverAuth "IP:$(addr "$i"),DNS:n$i"
    kubeconfig "$PKI/n$i.conf" "$(cert_user "n$i")"; done
}
# ------------------------------------------------------------------ control plane
pid_of() {   # pid of a control-plane part of THIS cluster (its command line names DIR), or fails
  local p; p=$(cat "$DIR/run/$1.pid" 2>/dev/null) && tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | grep -qF "$DIR/" && echo "$p"; }
launch() { # launch NAME ARGS...: nothing if it runs; logs are appended, so that a crash trace stays
  local n=$1; shift; ! pid_of "$n" >/dev/null || return 0
  echo "==== $(date -Is) start" >>"$DIR/log/$n.log"
  ( exec setsid "$BIN/$n" "$@" </dev/null >>"$DIR/log/$n.log" 2>&1 ) & echo $! >"$DIR/run/$n.pid"; }
start_etcd() { launch etcd --data-dir "$DIR/etcd" --listen-client-urls "http://$LO:2379" --advertise-client-urls "http://$LO:2379" \
  --listen-peer-urls "http://$LO:2380" --initial-advertise-peer-urls "http://$LO:2380" --initial-cluster "default=http://$LO:2380"; }
start_api() { launch kube-apiserver --etcd-servers="http://$LO:2379" --bind-address="$NET.1" --advertise-address="$NET.1" --secure-port=6443 \
  --tls-cert-file="$PKI/server.crt" --tls-private-key-file="$PKI/server.key" --client-ca-file="$PKI/ca.crt" \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --anonymous-auth=true --profiling=false \
  --kubelet-client-certificate="$PKI/to-kubelet.crt" --kubelet-client-key="$PKI/to-kubelet.key" \
  --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$PKI/sa.pub" \
  --service-account-signing-key-file="$PKI/sa.key" --service-cluster-ip-range="$SVC.0/20" --allow-privileged=true \
  --default-unreachable-toleration-seconds="$K8S_EVICT" --default-not-ready-toleration-seconds="$K8S_EVICT" ${K8S_API_FLAGS:-}; }
start_others() {
  local c flags; for c in kube-controller-manager kube-scheduler; do
    flags=(--kubeconfig="$PKI/$c.conf" --authentication-kubeconfig="$PKI/$c.conf" --authorization-kubeconfig="$PKI/$c.conf"
      --bind-address="$LO" --port=0 --leader-elect=false --profiling=false --kube-api-qps=100 --kube-api-burst=200
      --tls-cert-file="$PKI/local.crt" --tls-private-key-file="$PKI/local.key")
    [ $c = kube-scheduler ] || flags+=(--use-service-account-credentials=true --service-account-private-key-file="$PKI/sa.key"
      --root-ca-file="$PKI/ca.crt" --node-monitor-period=1s --node-monitor-grace-period="${K8S_GRACE}s" --node-eviction-rate=10)
    launch $c "${flags[@]}"; done
}
wait_api() { local k; for k in $(seq 6000); do kapi /readyz >/dev/null 2>&1 && return 0
  pid_of kube-apiserver >/dev/null || { tail -n 15 "$DIR/log/kube-apiserver.log" >&2; die "kube-apiserver ended"; }; sleep 0.1; done
  die "kube-apiserver is not ready after 600 s, see $DIR/log"; }
rbac() {   # the account that the manifests give to a portal: so every test with it has exactly these rights
  kc apply -k "$K8S_RIGHTS" >/dev/null
  local t; t=$(kapi /api/v1/namespaces/longshore/serviceaccounts/longshore/token -X POST -H 'Content-Type: application/json' \
    -d '{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":864000}}' | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p')
  [ -n "$t" ] || die "no token for the service account"; kubeconfig "$DIR/kubeconfig-portal" "token: $t" longshore-jobs
}
# ------------------------------------------------------------------ nodes
node_files() {
  local i=$1 d=$DIR/bed/nodes/n$1; mkdir -p "$d/etc-docker" "$d/kubelet" "$d/varlog" "$d/sysctl"
  # pods get addresses of their own that are routed between nodes (no NAT, no CNI): the flat network Kubernetes asks for
  cat >"$d/etc-docker/daemon.json" <<J
{"bip": "$POD.$i.1/24", "iptables": false, "ip-masq": false, "exec-opts": ["native.cgroupdriver=cgroupfs"],
 "log-driver": "json-file", "log-opts": {"max-size": "10m", "max-file": "2"},
 "insecure-registries": ["$NET.1:5000"]}
J
  printf '%s\n' "apiVersion: kubelet.config.k8s.io/v1beta1" "kind: KubeletConfiguration" "address: $(addr "$i")" "readOnlyPort: 0" \
  "authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}" "authorization: {mode: Webhook}" \
  "tlsCertFile: $PKI/n$i.crt" "tlsPrivateKeyFile: $PKI/n$i.key" "cgroupDriver: cgroupfs" "makeIPTablesUtilChains: false" "failSwapOn: false" \
  "oomScoreAdj: 0" "imageGCHighThresholdPercent: 100" "evictionHard: {memory.available: 100Mi}" "nodeLeaseDurationSeconds: 8" \
  "nodeStatusUpdateFrequency: 2s" "nodeStatusReportFrequency: 30s" "kubeAPIQPS: 50" "kubeAPIBurst: 100" "eventRecordQPS: 50" >"$d/kubelet.yaml"
}
node_kubelet() {   # runs INSIDE node I: mounts of its own, then the kubelet and the device plugin
  local i=$1 d=$DIR/bed/nodes/n$1 f v
  # the kubelet insists on these machine-wide settings: it gets files of its own instead
  for v in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    f=${v%=*}; mountpoint -q "/proc/sys/$f" && continue
    echo "${v#*=}" >"$d/sysctl/${f##*/}"; mount --bind "$d/sysctl/${f##*/}" "/proc/sys/$f"; done
  mountpoint -q /var/log || mount --bind "$d/varlog" /var/log
  mkdir -p /var/lib/kubelet   # another cluster that stops takes it along
  mountpoint -q /var/lib/kubelet || { mount --bind "$d/kubelet" /var/lib/kubelet; mount --make-rshared /var/lib/kubelet; }
  for f in PREROUTING OUTPUT; do set -- -t nat "$f" -d "$SVC.1/32" -p tcp --dport 443 -j DNAT --to-destination "$NET.1:6443"
    iptables -w "$1" "$2" -C "${@:3}" 2>/dev/null || iptables -w "$1" "$2" -A "${@:3}"; done   # kubernetes.default, with no kube-proxy
  rm -f /var/lib/kubelet/device-plugins/kubelet.sock; export PATH=$BIN:$PATH
  setsid "$BIN/kubelet" --config="$d/kubelet.yaml" --kubeconfig="$PKI/n$i.conf" --hostname-override="n$i" --node-ip="$(addr "$i")" \
    --root-dir=/var/lib/kubelet --container-runtime=docker --docker-endpoint="unix://$d/docker.sock" --network-plugin= \
    --pod-infra-container-image=bed/pause:1 --cgroups-per-qos=false --enforce-node-allocatable= \
    --experimental-dockershim-root-directory="$d/dockershim" --volume-plugin-dir="$d/volume-plugins" --cert-dir="$d/kubelet/pki" \
    --node-labels="bed/node=n$i" </dev/null >>"$DIR/log/kubelet-n$i.log" 2>&1 &
  for f in $(seq 3000); do [ ! -S /var/lib/kubelet/device-plugins/kubelet.sock ] || break; sleep 0.1; done
  rm -f /var/lib/kubelet/device-plugins/DEPRECATION     # the stub would wait to be found instead of registering
  setsid "$BIN/bed-gpu-plugin" nvidia.com/gpu "n$i" "$K8S_GPUS" "$DIR/" </dev/null >>"$DIR/log/gpu-plugin-n$i.log" 2>&1 &
}
kubelet_pid() { pgrep -f -- "^$BIN/kubelet --config=$DIR/bed/nodes/n$1/kubelet.yaml " || true; }   # one cluster, one node, one process
plugin_pid() { pgrep -f -- "^$BIN/bed-gpu-plugin nvidia.com/gpu n$1 [0-9]* $DIR/$" || true; }
start_node() {   # everything of node I that is not there yet
  local i=$1 j p n=$BR-n$1 docker="docker -H unix://$DIR/bed/nodes/n$1/docker.sock"
  for j in $(seq "$NODES"); do [ "$j" = "$i" ] || ip -n "$n" route replace "$POD.$j.0/24" via "$(addr "$j")"; done
  ip route replace "$POD.$i.0/24" via "$(addr "$i")"
  $docker image inspect longshore/sample:1 >/dev/null 2>&1 || {
    $docker import -c 'CMD ["sh"]' -c 'ENV PATH=/bin' "$DIR/busybox.tar" longshore/sample:1
    $docker import -c 'ENTRYPOINT ["/bin/sh","-c","trap \"exit 0\" TERM INT; sleep 2147483647 & wait"]' "$DIR/busybox.tar" bed/pause:1; } >/dev/null
  if [ -z "$(kubelet_pid "$i")" ]; then
    for p in $(plugin_pid "$i"); do kill -KILL "$p"; done
    bed exec "$i" env K8S_GPUS="$K8S_GPUS" bash "$SELF" _kubelet "$DIR" "$i"; fi
}
wait_node() {   # Ready, no taint left, and the patched resource (the kubelet zeroes it when it registers again) counted
  local i=$1 k s
  for k in $(seq 6000); do
    s=$(kc get node "n$i" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.allocatable.nvidia\.com/gpu} {.status.allocatable.example\.com/gpu} {.spec.taints[*].key}' 2>/dev/null || true)
    case $s in
      "True $K8S_GPUS $K8S_GPUS "|"True $K8S_GPUS $K8S_GPUS node.kubernetes.io/unschedulable") return 0;;
      "True "*" $K8S_GPUS "*) ;;
      "True "*) kapi "/api/v1/nodes/n$i/status" -X PATCH -H 'Content-Type: application/json-patch+json' -o /dev/null \
         -d "[{\"op\":\"add\",\"path\":\"/status/capacity/example.com~1gpu\",\"value\":\"$K8S_GPUS\"}]" || true;; esac
    sleep 0.2; done
  tail -n 8 "$DIR/log/kubelet-n$i.log" >&2; die "node n$i is not Ready after 1200 s ($s)"
}
busybox_tar() {
  local r a; r=$(mktemp -d); mkdir -p "$r"/{bin,etc,proc,sys,dev,root,tmp,var}; chmod 1777 "$r/tmp"
  cp "$(command -v busybox)" "$r/bin/busybox"; for a in $("$r/bin/busybox" --list); do [ "$a" = busybox ] || ln -s busybox "$r/bin/$a"; done
  echo 'root:x:0:0:root:/root:/bin/sh' >"$r/etc/passwd"; echo 'root:x:0:' >"$r/etc/group"
  tar --numeric-owner --owner=0 --group=0 -C "$r" -cf "$DIR/busybox.tar" .; rm -rf "$r"
}
# ------------------------------------------------------------------ verbs
ms() { echo $(( ($(date +%s%N) - T0) / 1000000 )); }
cmd_start() {
  ok=; local i; T0=$(date +%s%N); [ "$(id -u)" = 0 ] || die "needs root"
  CACHE=$(cd "$K8S_CACHE" 2>/dev/null && pwd -P) && [ -x "$CACHE/bin/kubelet" ] || die "not installed in $K8S_CACHE (K8S_CACHE=...; run install first)"
  [ -r "$BED_SH" ] || die "docker-bed.sh is wanted at $BED_SH (BED_SH=...)"
  mkdir -p "$1"/{run,log} /var/lib/kubelet; DIR=$(cd "$1"; pwd -P); [ -s "$DIR/conf" ] || new_conf "$2"; open_dir "$DIR"
  trap '[ -n "$ok" ] || say "start failed; logs are in $DIR/log; \"stop $DIR\" cleans up"' EXIT
  make_keys; for i in $(seq "$NODES"); do node_files "$i"; done
  [ -s "$DIR/busybox.tar" ] || busybox_tar
  bed up "$NODES" >"$DIR/log/bed.log" 2>&1 & local up=$!
  # the apiserver's address is on the bridge that docker-bed makes first
  for i in $(seq 1000); do ip -4 addr show "$BR" 2>/dev/null | grep -qF "$NET.1/" && break; sleep 0.05; done
  start_etcd; start_api; wait "$up" || { cat "$DIR/log/bed.log" >&2; die "docker-bed up failed"; }
  wait_api; start_others; for i in $(seq "$NODES"); do start_node "$i"; done
  rbac; for i in $(seq "$NODES"); do wait_node "$i"; done
  for i in $(seq 1000); do kc -n longshore-jobs get serviceaccount default >/dev/null 2>&1 && break; sleep 0.1; done
  cat >"$DIR/env" <<E
export KUBECONFIG=$DIR/kubeconfig K8S_PORTAL_KUBECONFIG=$DIR/kubeconfig-portal K8S_API=$API K8S_CA=$PKI/ca.crt
export K8S_NAMESPACE=longshore-jobs K8S_NODES="$(seq -s' ' -f 'n%g' "$NODES")" K8S_DIR=$DIR PATH=$BIN:\$PATH
E
  ok=1; cat "$DIR/env"; echo "# started in $(ms) ms"
}
cmd_stop() {
  local i p c k; T0=$(date +%s%N)
  for c in kube-scheduler kube-controller-manager kube-apiserver etcd; do p=$(pid_of $c) && { kill -TERM "$p"; kill -CONT "$p"; } || true; done
  for i in $(seq "$NODES"); do bed thaw "$i" 2>/dev/null || true; bed crash "$i" 2>/dev/null || true; done   # all processes of a node die with its init
  for c in kube-scheduler kube-controller-manager kube-apiserver etcd; do
    for k in $(seq 50); do pid_of $c >/dev/null || break; sleep 0.1; done
    p=$(pid_of $c) && kill -KILL "$p" || true; rm -f "$DIR/run/$c.pid"; done
  bed down --purge; rm -rf --one-file-system "$DIR"/{etcd,run,pki,conf,env,kubeconfig,kubeconfig-portal,busybox.tar}
  # rmdir would also pull the mount from under the nodes of another cluster
  pgrep -x kubelet >/dev/null || rmdir /var/lib/kubelet 2>/dev/null || true; echo "stopped in $(ms) ms; logs are left in $DIR/log"
}
rss() { local s=0 p x; for p in "$@"; do x=$(sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$p/status" 2>/dev/null || true); s=$((s + ${x:-0})); done; echo $((s / 1024)); }
cmd_status() {
  local c p i rc=0
  for c in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    p=$(pid_of $c) && printf '%-26s pid %-7s %4s MB %s\n' "$c" "$p" "$(rss "$p")" "$(sed -n 's/^State:\t//p' "/proc/$p/status")" || { printf '%-26s DOWN\n' "$c"; rc=1; }; done
  for i in $(seq "$NODES"); do p=$(kubelet_pid "$i"); printf '%-26s pid %-7s %4s MB\n' "kubelet n$i" "${p:-DOWN}" "$(rss $p)"; done
  bed status; kc get nodes -o wide --request-timeout=5s || rc=1; return $rc
}
cmd_node_down() {
  local i=$1 p
  case ${2:-cut} in
    cut) bed cut "$i";; freeze) bed freeze "$i";; crash) bed crash "$i";;
    kill) for p in $(kubelet_pid "$i"); do kill -KILL "$p"; done;;
    hang) for p in $(kubelet_pid "$i"); do kill -STOP "$p"; done;;
    *) die "node-down DIR n [cut|kill|hang|freeze|crash]";; esac
}
cmd_node_up() { local i=$1 p; T0=$(date +%s%N)
  for p in $(kubelet_pid "$i"); do kill -CONT "$p"; done
  bed thaw "$i" 2>/dev/null || true; bed boot "$i"; bed heal "$i"; start_node "$i"; wait_node "$i"; echo "node n$i is back after $(ms) ms"; }
cmd_api_down() { local p; p=$(pid_of kube-apiserver) || die "not running"
  case ${1:-kill} in kill) kill -KILL "$p"; rm -f "$DIR/run/kube-apiserver.pid";; hang) kill -STOP "$p";; *) die "api-down DIR [kill|hang]";; esac; }
cmd_api_up() { local p; T0=$(date +%s%N); p=$(pid_of kube-apiserver) && kill -CONT "$p" || start_api; wait_api; echo "apiserver is ready after $(ms) ms"; }
K8S_CACHE=${K8S_CACHE:-$HOME/.cache/longshore/kubernetes}; BED_SH=${BED_SH:-$HERE/docker-bed.sh}
K8S_RIGHTS=${K8S_RIGHTS:-$HERE/../../Dockerfiles/kubernetes/rights}; SVC=192.168.192
K8S_GRACE=${K8S_GRACE:-40}; K8S_EVICT=${K8S_EVICT:-30}; K8S_GPUS=${K8S_GPUS:-2}
case "${1:-}" in
  install) cmd_install "${2:?cache folder}";;
  start) cmd_start "${2:?folder}" "${3:-2}";;
  stop|status) open_dir "${2:?folder}"; cmd_"$1";;
  node-down|node-up) open_dir "${2:?folder}"; i=${3#n}; cmd_"${1/-/_}" "${i:?node number}" "${4:-}";;
  api-down|api-up) open_dir "${2:?folder}"; cmd_"${1/-/_}" "${3:-}";;
  _kubelet) open_dir "$2"; node_kubelet "$3";;
  *) sed -n '/^set -euo/q;2,$p' "$SELF" | sed 's/^# \?//'; exit 2;;
esac