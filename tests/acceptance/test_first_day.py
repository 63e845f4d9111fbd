"""What somebody does on their first day, in a shell with nothing but the portal's wheel: each task in two commands at
most. A shell in a job's task, its ports and ssh are in test_command_inside.py; a job that waits, and all that can go
wrong, in test_command.py."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.acceptance.laptop import ENDS, GOES_ON, IMAGE, Laptop, begin, laptop_of, stop_all_of
from tests.acceptance.portal import SECRET, Portal
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT

CONFIG = """{"jobName": "NAME", // a comment
 "image": "longshore/sample:1",
 "taskRoles": [{"name": "main", "cpuNumber": 1, "memoryMB": 100, "command": "echo hello"}]}
"""
PYTHON = """import longshore
job = longshore.Client().job("broken")
print(job.state, *sorted(line.text for line in job.logs()))
"""
# What they want, how they get it, what that prints in the end, and its exit code. There are: trained, which ended well
# and left a model; broken, which failed with 3; going and too-long, which run; and theirs, of omar.
TASKS: dict[str, tuple[tuple[str, ...], str, int]] = {
    "sign in by password": (("longshore login $URL --user mira",), "Signed in to http://127.0.0.1", 0),
    "sign in by a token of the page": (
        ("echo $TOKEN | longshore login $URL --token -",),
        "Signed in to http://127.0.0.1",
        0,
    ),
    "run this folder's script": (("longshore run --memory 100m -- sh ends.sh",), "step 3", 3),
    "run a command of several": (("longshore run --memory 100m -- 'echo one && echo two'",), "one\ntwo", 0),
    "leave it and come back": (
        ("longshore run -d --name later --memory 100m -- sh ends.sh", "longshore logs -f later"),
        "step 1\nstep 2\nstep 3",
        0,
    ),
    "submit a config": (("longshore submit -f job.json",), "hello", 0),
    "submit what a script writes": (("sed s/from-file/piped/ job.json | longshore submit -f -",), "hello", 0),
    "see what runs": (("longshore ls --state RUNNING",), "going", 0),
    "see all of a job": (("longshore show going",), "main-0  RUNNING  local", 0),
    "look at a colleague's": (("longshore show omar~theirs",), "omar~theirs  SUCCEEDED", 0),
    "see why it failed": (("longshore why broken",), "exit code", 0),
    "find a line in its log": (("longshore logs --grep 'step [23]' broken",), "step 2\nstep 3\n", 0),
    "keep its log": (("longshore logs broken > log.txt", "grep -c step log.txt"), "3", 0),
    "fetch its output": (("longshore cp 'store:/Output/mira/trained/*' results/", "cat results/model"), "weights", 0),
    "bring a folder and have it back": (
        ("longshore cp data store:/users/mira/sets", "longshore cp store:/users/mira/sets back; cat back/in.txt"),
        "what goes in\n",
        0,
    ),
    "run it again with more memory": (("longshore submit --again trained --memory 200m -f",), "done", 0),
    "stop it": (("longshore stop too-long", "longshore wait too-long"), "STOPPED", 1),
    "wait for it in a script": (("longshore wait broken || echo it ended with $?",), "it ended with 3", 0),
    "take an answer apart": (
        ("longshore ls --json > jobs.json", "python -c 'import json; print(len(json.load(open(\"jobs.json\"))) > 3)'"),
        "True",
        0,
    ),
    "see who used what": (("longshore usage --by user",), "mira", 0),
    "open its page": (("longshore open --print going",), "/jobs/mira/going\n", 0),
    "have names completed": (('eval "$(longshore completion bash)"', "complete -p longshore"), "longshore", 0),
    "do it from Python": (("python ask.py",), "FAILED step 1 step 2 step 3 warned", 0),
    "ask what there is": (("longshore --help",), "Run deep-learning jobs", 0),
}


@pytest.fixture(scope="module")
def laptop(shared_portal: Portal, docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    laptop = laptop_of(shared_portal, tmp_path_factory.mktemp("laptop"))
    (laptop.project / "ends.sh").write_text(ENDS)
    (laptop.project / "job.json").write_text(CONFIG.replace("NAME", "from-file"))
    (laptop.project / "ask.py").write_text(PYTHON)
    for name in ("going", "too-long"):
        begin(laptop, name, GOES_ON)
    laptop.does("run", "--name", "broken", *IMAGE, "--", "sh", "ends.sh", code=3)
    laptop.does("run", "--name", "trained", *IMAGE, "--", "echo", "done")
    (shared_portal.home / "store" / "Output" / "mira" / "trained" / "model").write_text("weights")
    shared_portal.http.put("/user", json={"username": "omar", "password": SECRET, "admin": False, "modify": False})
    omar = Laptop(tmp_path_factory.mktemp("omar"), laptop.url, laptop.bin)
    omar.project.mkdir()
    omar.does("login", laptop.url, "--user", "omar", LONGSHORE_PASSWORD=SECRET)
    omar.does("run", "--name", "theirs", *IMAGE, "--", "true")
    yield laptop
    stop_all_of(shared_portal)
    shared_portal.wait_clean(docker_engine)


@pytest.mark.parametrize(("lines", "prints", "code"), TASKS.values(), ids=TASKS)
def test_it_takes_two_commands_at_most(laptop: Laptop, lines: tuple[str, ...], prints: str, code: int) -> None:
    assert 1 <= len(lines) <= 2
    own = {"LONGSHORE_PASSWORD": SECRET, "LONGSHORE_IMAGE": IMAGE[1], "URL": laptop.url, "TOKEN": laptop.token}
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        env={**laptop.environment, **own},
        cwd=laptop.project,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert (done.returncode, prints in done.stdout + done.stderr) == (code, True), (done.stdout, done.stderr)
