"""The start script, run by real shells. It runs in a process group of its own, as under Docker's init."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.engines import runtime
from jobs.containers import bootstrap
from tests.helpers import LIMIT, until

SHELLS = ["bash", "dash", "busybox"]


class Container:
    """A folder that looks to the start script like a container of an image with (only) one shell."""

    def __init__(self, root: Path, shell: str) -> None:
        self.root = root
        self.shell = root / "bin" / ("bash" if shell == "bash" else "sh")
        self.work = root / "work"
        self.started: list[subprocess.Popen[bytes]] = []
        for folder in ("bin", "etc", "pai/log", "pai/bootstrap", "pai/secrets", "work"):
            (root / folder).mkdir(parents=True)
        self.shell.symlink_to(shutil.which(shell) or pytest.skip(f"no {shell} here"))
        for tool in ("tr", "sed", "sleep", "cat", "env", "cp", "chmod"):
            (root / "bin" / tool).symlink_to(shutil.which("busybox" if shell == "busybox" else tool) or "/none")

    def start(self, command: str, **env: str) -> subprocess.Popen[bytes]:
        for file in bootstrap.files(command):
            target = self.root / file.path[1:]
            target.write_bytes(self._moved(file.content) if target.name == "start.sh" else file.content)
        process = subprocess.Popen(
            [self.shell, self.root / "pai/bootstrap/start.sh"],
            env={"PATH": f"{self.root}/bin", **bootstrap.ENV, **env},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, command: str, **env: str) -> tuple[int, str, str]:
        process = self.start(command, **env)
        out, err = process.communicate(timeout=LIMIT)
        return process.returncode, out.decode(), err.decode()

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def _moved(self, script: bytes) -> bytes:
        text = script.decode()
        for old, new in (
            ("pai=/pai\n", f"pai={self.root}/pai\n"),
            ("environment=/etc", f"environment={self.root}/etc"),
            ("shell=/bin/bash\n", f"shell={self.root}/bin/bash\n"),
            ("cgroup=/sys/fs/cgroup\n", f"cgroup={self.root}/cgroup\n"),
            ("home=/root\n", f"home={self.root}/root\n"),
            ("init=/proc/1/environ\n", f"init={self.root}/init\n"),
            ("net=/proc/net\n", f"net={self.root}/net\n"),
            ("sshd=/usr/sbin/sshd\n", f"sshd={self.root}/usr/sbin/sshd\n"),
            ("shell=/bin/sh\n", f"shell={self.root}/bin/sh\n"),
        ):
            assert old in text
            text = text.replace(old, new)
        return text.encode()

    def close(self) -> None:
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()


@pytest.fixture(params=SHELLS)
def container(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path, request.param)
    yield made
    made.close()


def test_it_keeps_stdout_and_stderr_apart_and_adds_nothing(container: Container) -> None:
    assert container.run("echo out; echo err >&2") == (0, "out\n", "err\n")


@pytest.mark.parametrize("code", [0, 3, 130, 254])
def test_it_ends_with_the_code_of_the_command(container: Container, code: int) -> None:
    assert container.run(f"exit {code}")[0] == code


@pytest.mark.parametrize(("ours", "code"), runtime.OWN_CODES.items())
def test_what_the_command_does_itself_is_told_from_what_others_do_to_it(
    container: Container, ours: int, code: int
) -> None:
    assert container.run(f"exit {code}")[0] == ours
    assert container.run(f"exit {code}", LONGSHORE_DEBUG_HOLD="1")[0] == ours


@pytest.mark.parametrize("code", [*runtime.OUR_CODES, 255, 143, 1, 0])
def test_it_writes_down_the_code_of_the_command_at_the_end(container: Container, code: int) -> None:
    file = container.root / "pai/log/exit-code"
    _, seen, _ = container.run(f"[ -f {file} ] && [ ! -s {file} ] && echo empty; exit {code}")
    assert (seen, file.read_text()) == ("empty\n", f"{code}\n")


@pytest.mark.parametrize("file", ["memory/memory.oom_control", "memory.events"])
@pytest.mark.parametrize(("kills", "code"), [(0, 220), (2, runtime.KILLED_FOR_MEMORY)])
def test_it_tells_a_kill_for_memory_from_another(container: Container, file: str, kills: int, code: int) -> None:
    counts = container.root / "cgroup" / file
    counts.parent.mkdir(parents=True)
    counts.write_text(f"oom_kill_disable 0\nunder_oom 0\noom 7\noom_kill {kills}\n")
    assert container.run("kill -KILL $$")[0] == code
    assert container.run("exit 1")[0] == 1


@pytest.mark.parametrize("file", ["tcp", "tcp6"])
@pytest.mark.parametrize(("state", "code"), [("0A", runtime.FOUND_PORT_TAKEN), ("01", 0)])
def test_it_runs_no_command_whose_port_something_else_listens_on(
    container: Container, file: str, state: str, code: int
) -> None:
    (container.root / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
    local, far = ("00000000", "0100007F") if file == "tcp" else ("0" * 32, "0" * 32)
    lines = [head, f"  12: {local}:5DBF {far}:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 1 1 0"]
    (container.root / "net" / file).write_text("\n".join([*lines, ""]))
    ended = container.run("echo ran", PAI_CONTAINER_HOST_PORT_LIST="x1:23998,23999;http:30001;ssh:30002;")
    assert (ended[0], "ran" in ended[1], "Port 23999" in ended[2]) == (code, code == 0, code != 0)
    assert container.run("echo ran", PAI_CONTAINER_HOST_PORT_LIST="x:3999;http:2399;ssh:5;")[0] == 0


def test_it_ends_with_the_code_of_the_last_of_many_lines(container: Container) -> None:
    code, out, _ = container.run("echo one\nif true; then\n  echo 'two three'\nfi\n\nfalse\n")
    assert (code, out) == (1, "one\ntwo three\n")


def test_it_leaves_quotes_dollars_and_stars_to_the_shell(container: Container) -> None:
    _, out, _ = container.run("""echo "$A" '$A' $((1+1)) "it's" \\"; echo "x  *  y" """, A="a b  *")
    assert out == "a b  * $A 2 it's \"\nx  *  y\n"


def test_it_runs_a_command_with_windows_line_ends(container: Container) -> None:
    assert container.run("echo one\r\necho two\r\n")[1] == "one\ntwo\n"


def test_it_uses_bash_where_there_is_one(tmp_path: Path) -> None:
    made = Container(tmp_path, "bash")
    assert made.run('[[ abc == a* ]] && echo "${BASH_VERSION:+bash}"')[1] == "bash\n"


def test_it_says_127_and_the_line_for_a_missing_program(container: Container) -> None:
    code, out, err = container.run("true\nno-such-program")
    assert (code, out) == (127, "") and "no-such-program" in err


def test_it_tells_the_signal_that_killed_the_command(container: Container) -> None:
    assert container.run("kill -SEGV $$")[::2] == (139, "")
    assert container.run("kill -KILL $$")[::2] == (220, "")


def test_it_starts_in_the_work_dir_and_names_it(container: Container) -> None:
    assert container.run('pwd; echo "$PAI_WORK_DIR"')[1] == f"{container.work}\n" * 2


def test_a_job_may_set_the_work_dir_name_itself(container: Container) -> None:
    assert container.run('echo "$PAI_WORK_DIR"', PAI_WORK_DIR="/x")[1] == "/x\n"


def test_the_command_finds_no_traces_of_the_start(container: Container) -> None:
    out = container.run("env; [ -e /proc/self/fd/3 ] && echo fd3; true")[1]
    assert "TINI" not in out and "fd3" not in out


def test_it_marks_start_and_end_in_the_runtime_log_only(container: Container) -> None:
    assert "USER COMMAND" not in "".join(container.run("true")[1:])
    assert container.read("pai/log/runtime.pai.log") == "[INFO] USER COMMAND START\n[INFO] USER COMMAND END\n"
    container.run("exit 3")
    assert "USER COMMAND END" not in container.read("pai/log/runtime.pai.log")


def test_it_runs_without_a_log_it_may_write(container: Container) -> None:
    shutil.rmtree(container.root / "pai/log")
    (container.root / "pai/log").mkdir()
    (container.root / "pai/log/runtime.pai.log").mkdir()
    assert container.run("echo a") == (0, "a\n", "")


def test_it_gives_logins_the_variables_they_expect(container: Container) -> None:
    (container.root / "etc/environment").write_text("LANG=C")
    container.run("true", PAI_A="1;2 'x' $HOME", PAI_LINES="a\nb", SECRET="s", LD_LIBRARY_PATH="/l", CUDA_V="9")
    written = container.read("etc/environment")
    assert "SECRET" not in written and "PAI_LINES" not in written and "TINI" not in written
    show = 'printf "%s|" "$LANG" "$PAI_A" "$LD_LIBRARY_PATH" "$CUDA_V" "$PAI_WORK_DIR"'
    login = ["sh", "-c", f". {container.root}/etc/environment; {show}"]
    shown = subprocess.run(login, capture_output=True, text=True, env={}, check=True)
    assert shown.stdout == f"C|1;2 'x' $HOME|/l|9|{container.work}|"


def test_names_a_shell_cannot_hold_stay_out_of_the_login_environment(container: Container) -> None:
    container.run("true", **{"PAI_HOST_IP_my.role_0": "10.0.0.1"})
    assert "my.role" not in container.read("etc/environment")


def test_programs_find_variables_whose_names_a_shell_cannot_hold(container: Container) -> None:
    if container.shell.name != "bash":
        (container.root / "bin/bash").symlink_to(shutil.which("bash") or "/none")
    odd = {"PAI_HOST_IP_my.role_0": "10.0.0.1", "learning-rate": "a  * $B", "a~b": ""}
    (container.root / "init").write_text("".join(f"{name}={value}\0" for name, value in {"A": "init's", **odd}.items()))
    _, out, _ = container.run("env", A="mine")
    assert {"A=mine", *(f"{name}={value}" for name, value in odd.items())} <= set(out.splitlines())


def test_they_find_them_too_where_logins_can_be_given_none(container: Container) -> None:
    """As root, a shell may take a file of a read-only image for one that can be written."""
    (container.root / "etc/environment").mkdir()
    (container.root / "init").write_text("a.b=1\0")
    assert "a.b=1" in container.run("cat /proc/$$/environ")[1].split("\0")


def test_a_start_runs_few_programs(tmp_path: Path) -> None:
    """Each takes as long as all that the shell does by itself."""
    container = Container(tmp_path, "dash")
    tools = container.root / "bin"
    for tool in ("tr", "sed", "cat", "mkdir"):
        real = shutil.which(tool)
        (tools / tool).unlink(missing_ok=True)
        (tools / tool).write_text(f'#!/bin/sh\necho {tool} >>{container.root}/ran\nexec {real} "$@"\n')
        (tools / tool).chmod(0o755)
    for variables, more in (("PAI_A=1\0", []), ("PAI_A=1\0a.b=2\0", ["sed"])):
        (container.root / "ran").unlink(missing_ok=True)
        (container.root / "init").write_text(variables)
        assert container.run("true", PAI_CONTAINER_HOST_PORT_LIST="http:30001;ssh:30002;")[0] == 0
        assert sorted(container.read("ran").split()) == ["mkdir", "sed", "sed", *more, "tr"]


@pytest.mark.timed
def test_a_role_of_a_thousand_tasks_starts_as_fast_whatever_its_name_is(container: Container) -> None:
    def cost(role: str) -> float:
        names = [f"PAI_{what}_{role}_{index}" for what in ("HOST_IP", "PORT_LIST") for index in range(1000)]
        (container.root / "init").write_text("".join(f"{name}=10.0.0.1\0" for name in names))
        before = os.times()
        assert container.run("true")[0] == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(cost("my.role") for _ in range(3)) < 5 * min(cost("my_role") for _ in range(3))


def test_it_runs_when_the_image_is_read_only(container: Container) -> None:
    shutil.rmtree(container.root / "etc")
    assert container.run("echo a") == (0, "a\n", "")


def test_it_runs_with_a_path_that_leads_nowhere(container: Container) -> None:
    assert container.run("echo a", PATH="/none") == (0, "a\n", "")


def _stop(container: Container, command: str) -> tuple[int, str, str]:
    (container.work / "ready").unlink(missing_ok=True)
    process = container.start(command)
    until((container.work / "ready").exists)
    os.killpg(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out.decode(), err.decode()


def test_a_stopped_command_ends_with_143(container: Container) -> None:
    assert _stop(container, ": >ready; sleep 600; echo not reached") == (143, "", "")
    assert _stop(container, ": >ready; exec sleep 600") == (143, "", "")


def test_a_child_may_save_its_work_when_it_is_stopped(container: Container) -> None:
    child = f"{container.shell} -c 'trap \"sleep 0.3; echo saved; exit 0\" TERM; : >ready; while :; do sleep 0.1; done'"
    assert _stop(container, f"{child}; echo not reached")[:2] == (143, "saved\n")


def test_children_in_the_background_may_save_their_work_too(container: Container) -> None:
    child = f"{container.shell} -c 'trap \"sleep 0.3; echo saved; exit 0\" TERM; : >ready; while :; do sleep 0.1; done'"
    assert _stop(container, f"{child} & wait")[:2] == (143, "saved\n")


def test_a_command_may_handle_the_stop_itself(container: Container) -> None:
    # The child says that it is ready: between fork and exec it would still have the trap, and swallow the signal.
    child = f"{container.shell} -c ': >ready; exec sleep 600'"
    for code in (0, 7, 255):
        ended = _stop(container, f"trap 'echo bye; exit {code}' TERM; {child} & wait")
        assert ended[:2] == (runtime.TOLD_TO_END, "bye\n"), "it was told: whatever its code is, it is not done"
        assert container.read("pai/log/exit-code") == f"{code} told\n"


def test_where_its_code_cannot_be_written_only_success_is_no_success_once_it_was_told(container: Container) -> None:
    (container.root / "pai/log/exit-code").mkdir()
    child = f"{container.shell} -c ': >ready; exec sleep 600'"
    assert _stop(container, f"trap 'exit 0' TERM; {child} & wait")[0] == runtime.TOLD_TO_END
    assert _stop(container, f"trap 'exit 7' TERM; {child} & wait")[0] == 7


def test_a_command_can_still_be_interrupted(container: Container) -> None:
    assert container.run("sleep 600 & child=$!; kill -TERM $child; wait $child; echo $?")[1] == "143\n"
    assert container.run(f"{container.shell} -c 'kill -INT $$; echo not reached'; echo $?")[1] == "130\n"


def test_the_code_is_copied_to_where_the_command_starts(container: Container) -> None:
    code = container.root / "pai/code/mnist"
    (code / "lib").mkdir(parents=True)
    (code / "train.py").write_text("print()")
    (code / "lib" / ".hidden").write_text("x")
    (code / "train.py").chmod(0o444)
    (code / "lib").chmod(0o555)
    exit_code, out, _ = container.run(
        "cat mnist/train.py mnist/lib/.hidden; echo changed > mnist/train.py; cat mnist/train.py"
    )
    assert (exit_code, out) == (0, "print()xchanged\n")
    assert (code / "train.py").read_text() == "print()"


def test_the_other_tasks_have_names_for_ssh(container: Container) -> None:
    (container.root / "root").mkdir()
    (container.root / "bin" / "ssh").symlink_to("/bin/true")
    (container.root / "bin" / "mkdir").symlink_to(shutil.which("mkdir") or "/none")
    for file in bootstrap.key_files("PRIVATE\n", "ssh-ed25519 AAAA job\nssh-ed25519 BBBB own\n"):
        (container.root / file.path[1:]).write_bytes(file.content)
    env = {"PAI_JOB_NAME": "mira~train", "PAI_CONTAINER_SSH_PORT": "31000"}
    for role, index, ip, port in (("ps", 0, "10.0.0.1", "31000"), ("my_w.0~", 11, "10.0.0.2", "31001,31002")):
        env |= {f"PAI_HOST_IP_{role}_{index}": ip, f"PAI_PORT_LIST_{role}_{index}_ssh": port}
    assert container.run("true", **env)[0] == 0
    home = container.root / "root/.ssh"
    assert (home / "mira~train").read_text() == "PRIVATE\n"
    assert (home / "mira~train").stat().st_mode & 0o777 == 0o600
    assert (home / "authorized_keys").read_text().count("ssh-ed25519") == 2
    for host, port in (("ps-0", "31000"), ("my_w.0~-11", "31001")):
        said = subprocess.run(["ssh", "-G", "-F", home / "config", host], capture_output=True, text=True, check=True)
        options = dict(line.split(" ", 1) for line in said.stdout.splitlines())
        assert (options["hostname"], options["port"]) == (env["PAI_HOST_IP_" + host.replace("-", "_")], port)
        assert (options["user"], options["stricthostkeychecking"]) == ("root", "false")
        assert options["connectionattempts"] == "60", "its sshd may come up later"
        assert options["identityfile"] == f"{container.root}/root/.ssh/mira~train"


@pytest.mark.parametrize(("code", "calls"), [(0, 1), (1, 2)])
def test_an_sshd_whose_configuration_is_missing_is_started_without_one(
    container: Container, code: int, calls: int
) -> None:
    (container.root / "root").mkdir()
    (container.root / "bin" / "mkdir").symlink_to(shutil.which("mkdir") or "/none")
    (container.root / "pai/bootstrap/ssh.host").write_text("made before")
    sshd = container.root / "bin" / "sshd"
    without = 'case "$*" in *"-f /dev/null"*) exit 0 ;; esac'
    sshd.write_text(f"#!/bin/sh\necho called >>{container.root}/calls\n{without}\nexit {code}\n")
    sshd.chmod(0o755)
    for file in bootstrap.key_files("PRIVATE\n", "x\n"):
        (container.root / file.path[1:]).write_bytes(file.content)
    log = container.root / "pai/log/runtime.pai.log"
    container.run("true", PAI_JOB_NAME="a~b", PAI_CONTAINER_SSH_PORT="31000")
    until(lambda: "sshd listens on 31000" in log.read_text(), 20, what="sshd was started")
    assert container.read("calls") == "called\n" * calls


def test_without_ssh_in_the_image_nothing_is_touched(container: Container) -> None:
    (container.root / "root").mkdir()
    for file in bootstrap.key_files("PRIVATE\n", "x\n"):
        (container.root / file.path[1:]).write_bytes(file.content)
    assert container.run("echo fine", PAI_JOB_NAME="a~b", PAI_CONTAINER_SSH_PORT="1")[:2] == (0, "fine\n")
    assert not (container.root / "root/.ssh").exists()
    assert "neither ssh nor sshd" in container.read("pai/log/runtime.pai.log")


def test_a_container_for_debugging_is_kept_and_ends_with_the_code_of_the_command(container: Container) -> None:
    process = container.start("exit 3", LONGSHORE_DEBUG_HOLD="600")
    held = container.root / "pai/bootstrap/held"
    until(held.exists, 10, what="it is kept")
    os.killpg(process.pid, signal.SIGTERM)  # as Docker's init does
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 3
    assert b"exit code 3" in err and b"kept for\n10 minutes" in err and b"stopped by hand" in err
    assert held.read_text() == "3\n"


def test_what_a_failed_command_left_behind_is_not_waited_for(container: Container) -> None:
    left = "(trap '' TERM; while sleep 1; do :; done) >/dev/null 2>&1 & exit 3"
    process = container.start(left, LONGSHORE_DEBUG_HOLD="600")
    until((container.root / "pai/bootstrap/held").exists, 10, what="it is kept")
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(LIMIT) == 3


def test_a_hold_that_cannot_be_told_changes_no_exit_code(container: Container) -> None:
    (container.root / "pai/bootstrap/held").mkdir()
    assert container.run("exit 3", LONGSHORE_DEBUG_HOLD="1")[0] == 3


def test_no_variable_of_the_job_is_changed_for_its_command(container: Container) -> None:
    text = Path(bootstrap.__file__).with_name("bootstrap.sh").read_text()
    set_there = {name for name in re.findall(r"\b([a-z]\w*)=", text) if not name.startswith("ls_")}
    once = {
        "code",
        "environment",
        "hold",
        "home",
        "init",
        "key",
        "log",
        "net",
        "own",
        "pai",
        "port",
        "shell",
        "stopping",
    }
    mine = dict.fromkeys(sorted(set_there | once), "mine")
    code, out, _ = container.run("env", **mine)
    assert code == 0
    seen = dict(line.partition("=")[::2] for line in out.splitlines())
    assert {name: seen.get(name) for name in mine} == mine


def test_it_is_kept_no_longer_than_its_time(container: Container) -> None:
    assert container.run("exit 3", LONGSHORE_DEBUG_HOLD="1")[0] == 3


def test_what_succeeds_or_is_stopped_is_not_kept(container: Container) -> None:
    assert container.run("echo $LONGSHORE_DEBUG_HOLD.", LONGSHORE_DEBUG_HOLD="600")[:2] == (0, ".\n")
    process = container.start("echo ready; sleep 600", LONGSHORE_DEBUG_HOLD="600")
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 143
