# Serves the event files of a folder of the store with TensorBoard. Variables: TB_FOLDER, TB_IDLE (seconds).
python3 -c 'import tensorboard' 2>/dev/null || python3 -m pip install --quiet tensorboard || {
  echo "This image has no TensorBoard. Name one that has it: LONGSHORE_TENSORBOARD_IMAGE, or the image on the form." >&2
  exit 1
}
work=$(mktemp -d)
export TB_EVENTS=$work/events
mkdir "$TB_EVENTS"
cat >"$work/fetch.py" <<'PYTHON'
import json, os, sys, time, urllib.error, urllib.parse, urllib.request
ROOT, STORE, EVENTS = (os.environ[name] for name in ("TB_FOLDER", "LONGSHORE_WEBHDFS_URL", "TB_EVENTS"))
TOKEN = open(os.environ["LONGSHORE_WEBHDFS_TOKEN_FILE"]).read().strip()
def ask(path, op, **more):
    query = urllib.parse.urlencode({"op": op, "delegation": TOKEN, **more})
    return urllib.request.urlopen(f"{STORE}{urllib.parse.quote(path)}?{query}", timeout=60)
def events(path):
    for one in json.load(ask(path, "LISTSTATUS"))["FileStatuses"]["FileStatus"]:
        here = f"{path.rstrip('/')}/{one['pathSuffix']}"
        if one["type"] == "DIRECTORY":
            yield from events(here)
        elif "tfevents" in one["pathSuffix"]:
            yield here, one["length"]
def fetch():
    found = 0
    for path, length in events(ROOT):
        target = os.path.join(EVENTS, os.path.relpath(path, ROOT))
        have = os.path.getsize(target) if os.path.exists(target) else 0
        found += 1
        if have < length:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with ask(path, "OPEN", offset=have) as source, open(target, "ab") as local:
                while piece := source.read(1 << 20):
                    local.write(piece)
    return found
print(f"{fetch()} event files in {ROOT}", flush=True)
def visited(port):
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in open(name).readlines()[1:] if os.path.exists(name) else ():
            local, state = line.split()[1], line.split()[3]
            if int(local.rpartition(":")[2], 16) == port and state == "01":
                return True
    return False
def runs(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
if len(sys.argv) > 1:
    seen, port, idle = time.monotonic(), int(sys.argv[1]), float(os.environ["TB_IDLE"])
    while time.monotonic() - seen < idle:
        time.sleep(min(5, idle))
        seen = time.monotonic() if visited(port) else seen
        if not runs(int(sys.argv[2])):
            sys.exit("TensorBoard has ended.")
    print(f"Nobody visited for {idle:g} s.", flush=True)
PYTHON
port=$PAI_CONTAINER_HOST_tensorboard_PORT_LIST
python3 "$work/fetch.py" || exit 1
python3 -m tensorboard.main --logdir "$TB_EVENTS" --host 0.0.0.0 --port "$port" &
python3 "$work/fetch.py" "$port" $!
code=$?
kill $! 2>/dev/null
exit $code
