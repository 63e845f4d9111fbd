"""How a request for a container is written as a pod."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.kubernetes import scripts, spec
from clusters.engines.runtime import (
    LABEL_INSTANCE,
    LABEL_TASK,
    LOG_MARK,
    ContainerRequest,
    FaultReason,
    File,
    RuntimeFault,
)
from tests.helpers import LIMIT


def made(**more: Any) -> dict[str, Any]:
    return spec.pod(asked(**more))["spec"]


def main(**more: Any) -> dict[str, Any]:
    return next(one for one in made(**more)["containers"] if one["name"] == spec.MAIN)


def asked(**more: Any) -> ContainerRequest:
    given = {"name": "longshore-a-b-1-w-0-12345678", "image": "ubuntu:22.04", "argv": ("sh", "-c", "echo $HOME")}
    return ContainerRequest(**{**given, "labels": {LABEL_TASK: "7", LABEL_INSTANCE: "i1"}, **more})


def test_it_may_write_so_much_and_asks_for_no_disk() -> None:
    assert "ephemeral-storage" not in json.dumps(made())
    sizes = main(disk_mb=500)["resources"]
    assert (sizes["limits"]["ephemeral-storage"], sizes["requests"]["ephemeral-storage"]) == ("500Mi", "0")


def test_it_is_a_plain_pod_that_nobody_else_restarts_or_moves() -> None:
    pod = made()
    assert pod["restartPolicy"] == "Never"
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert {one["key"]: one.get("tolerationSeconds") for one in pod["tolerations"]} == {
        "node.kubernetes.io/unreachable": None,
        "node.kubernetes.io/not-ready": None,
        "nvidia.com/gpu": None,  # who gets nodes with GPUs is decided here
        "amd.com/gpu": None,
    }
    assert "nodeName" not in pod and "affinity" not in pod


def test_it_is_pinned_by_the_name_of_its_host() -> None:
    terms = made(host="n2")["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]
    assert terms == {"nodeSelectorTerms": [{"matchFields": fields}]}


def test_it_asks_for_what_it_may_use() -> None:
    sizes = main(cpus=1.5, memory_mb=300, gpu_ids=("0", "3", "amd.com/gpu:1"), shm_mb=200)["resources"]
    wanted = {"cpu": "1500m", "memory": "300Mi", "nvidia.com/gpu": "2", "amd.com/gpu": "1"}
    assert sizes == {"limits": wanted, "requests": wanted}
    shm = next(one for one in made(shm_mb=200)["volumes"] if one["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "200Mi"}


@pytest.mark.parametrize(("network", "host"), [("host", True), ("bridge", False)])
def test_its_ports_are_its_hosts(network: str, host: bool) -> None:
    assert made(network=network)["hostNetwork"] is host
    assert main(network=network, ports=(30001,))["ports"] == [
        {"containerPort": 30001, "hostPort": 30001, "protocol": "TCP"}
    ]


def test_dollars_arrive_as_written() -> None:
    container = main(env={"A": "$(HOME) $$ $x", "my.role_0": "1", "0 no": "x"})
    assert container["command"][-1] == "echo $$HOME"
    assert container["env"] == [{"name": "A", "value": "$$(HOME) $$$$ $$x"}, {"name": "my.role_0", "value": "1"}]


def test_its_rights_are_few() -> None:
    for container in made()["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False and security["capabilities"]["drop"] == ["ALL"]
        assert security["seccompProfile"] == {"type": "RuntimeDefault"} and "privileged" not in security
    assert "NET_RAW" not in main()["securityContext"]["capabilities"]["add"]
    pai = main(security="pai")["securityContext"]
    assert {"SYS_ADMIN", "DAC_READ_SEARCH"} <= set(pai["capabilities"]["add"])
    assert not any("hostPath" in volume for volume in made(security="pai", rdma=True)["volumes"])


def test_no_secret_is_in_the_pod() -> None:
    secret = File("/pai/secrets/ssh.key", b"top-secret", 0o600, secret=True)
    request = asked(files=(secret,), auth=("mira", "pa55word"), image="registry.lab:5000/team/x:1")
    assert "top-secret" not in json.dumps(spec.pod(request)) and "pa55word" not in json.dumps(spec.pod(request))
    files, pull = spec.files_secret(request, "u1"), spec.pull_secret(request, "u1")
    assert base64.b64decode(files["data"]["file-0"]) == b"top-secret"
    login = json.loads(base64.b64decode(pull["data"][".dockerconfigjson"]))["auths"]["registry.lab:5000"]
    assert (login["username"], login["password"]) == ("mira", "pa55word")
    for one in (files, pull):
        assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == ["u1"]


def test_files_beyond_the_limit_of_a_secret_are_refused() -> None:
    with pytest.raises(RuntimeFault) as caught:
        spec.files_secret(asked(files=(File("/x", b"x" * 1_100_000),)), "u")
    assert (caught.value.reason, caught.value.permanent) == (FaultReason.REFUSED, True)


def test_large_tars_are_fetched_from_signed_addresses(tmp_path: Path) -> None:
    (tmp_path / "code.tar").write_bytes(b"x" * 2_000_000)
    request = asked(tars=(tmp_path / "code.tar",), addresses=("http://portal/code?token=t0ken",))
    (fetching,) = spec.pod(request)["spec"]["initContainers"]
    assert "t0ken" not in json.dumps(fetching) and "address-0" in fetching["command"][-1]
    assert base64.b64decode(spec.files_secret(request, "u")["data"]["address-0"]) == b"http://portal/code?token=t0ken"


@pytest.mark.parametrize(
    ("name", "pod"),
    [
        ("longshore-a-b-1-w-0-12345678", "longshore-a-b-1-w-0-12345678"),
        ("longshore-Mira-my_job.x-1-w-0-12345678", "longshore-mira-my-job-x-1-w-0-12345678-96d81ea0"),
        ("___", "longshore-"),
    ],
)
def test_the_name_of_the_pod_follows_from_the_containers(name: str, pod: str) -> None:
    assert spec.pod_name(name).startswith(pod[:-8] if name != pod else pod)
    assert spec.pod_name(name) == spec.pod_name(name)


def test_long_names_stay_apart() -> None:
    one, other = spec.pod_name("x" * 100 + "-1"), spec.pod_name("x" * 100 + "-2")
    assert one != other and len(one) <= 63


def test_a_label_that_is_none_becomes_one() -> None:
    assert spec.label("7") == "7"
    assert len(spec.label("mira~job")) == 40


# --- the programs themselves, run by this machine's shells ---


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
@pytest.mark.parametrize("code", [0, 3])
def test_the_first_process_keeps_the_streams_apart_and_ends_as_its_command(
    shell: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"no {shell}")
    monkeypatch.setattr(scripts, "_LONGEST_WAIT", 10 * int(LIMIT))
    (tmp_path / "files").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "files" / "file-0").write_bytes(b"echo out; echo err >&2; exit %d\n" % code)
    file = File(str(tmp_path / "pai" / "go.sh"), b"", 0o750, handed=True)
    main, stderr = (
        text.replace("/longshore/", f"{tmp_path}/").replace("/dev/termination-log", str(tmp_path / "log"))
        for text in (scripts.main((file,)), scripts.STDERR)
    )
    reader = subprocess.Popen([*shell.split(), "-c", stderr], stdout=subprocess.PIPE)
    done = subprocess.run([*shell.split(), "-c", main, "start", "sh", file.path], capture_output=True, timeout=LIMIT)
    said, _ = reader.communicate(timeout=LIMIT)
    mark = f"{LOG_MARK}\n".encode()
    assert (done.returncode, done.stdout, said) == (code, mark + b"out\n", mark + b"err\n")
    assert Path(file.path).stat().st_mode & 0o777 == 0o750


def test_a_pod_that_somebody_else_deletes_has_the_grace_that_it_asks_for() -> None:
    assert [made(grace=grace)["terminationGracePeriodSeconds"] for grace in (0, 10, 300)] == [30, 30, 300]


def test_any_user_of_it_may_say_that_it_has_saved() -> None:
    [name] = [mount["name"] for mount in main()["volumeMounts"] if mount["mountPath"] == "/pai/notice"]
    assert {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}} in made()["volumes"]
