"""Which lanes there are, and which tests each of them runs."""

from __future__ import annotations

import os

from tests.bed import kubernetes_bed, postgres_bed
from tests.lanes.lane import PYTEST, ROOT, Lane
from tests.lanes.seconds import shares

RULES = min(6, max(2, len(os.sched_getaffinity(0))))  # lanes of the gate that share the tests without real parts
# Each real part once: a host with the jobs of the samples, its limits, environment, logs and what outlives the portal;
# the contract of an engine; two hosts with code, logins and files on HDFS; the contract of a store on HDFS and S3; two
# schedulers on PostgreSQL; nginx.
_MAIN_JOB = "tests/acceptance/test_main_job.py"
_TWO_HOSTS = "tests/acceptance/test_files_and_ssh.py"
PARTS = (
    "tests/acceptance/test_samples.py",
    f"{_MAIN_JOB}::test_its_container_has_the_limits_it_asked_for",
    f"{_MAIN_JOB}::test_its_command_finds_every_variable_and_its_own_unmangled",
    f"{_MAIN_JOB}::test_the_log_of_each_attempt_is_kept_before_its_container_goes",
    f"{_MAIN_JOB}::test_a_running_one_outlives_the_portal_which_takes_it_up_again",
    "tests/acceptance/test_command.py::test_a_folder_is_run_followed_and_ends_with_the_job_s_own_code",
    "tests/acceptance/test_docker_runtime.py::TestContract",
    "tests/acceptance/test_docker_runtime.py::TestFarWays",
    f"{_TWO_HOSTS}::test_code_logins_outputs_and_logs[hdfs]",
    f"{_TWO_HOSTS}::test_a_login_from_outside_with_the_key_of_the_job[hdfs]",
    f"{_TWO_HOSTS}::test_an_image_without_sshd_runs_all_the_same[hdfs]",
    "tests/acceptance/test_hdfs_store.py::TestHdfsStore",
    "tests/acceptance/test_s3_store.py::TestS3Store",
    "tests/acceptance/test_schedulers.py::test_of_two_schedulers_one_acts[postgres]",
    "tests/acceptance/test_https.py::test_forms_work_and_cookies_stay_on_https",
    "tests/acceptance/test_up.py::test_a_second_one_on_the_same_folder_is_refused_in_a_sentence",
)
# In a browser: every page by axe, and one of each kind of page that changes while it is looked at.
BROWSER = (
    "tests/pages/test_look.py",
    "tests/pages/test_live.py::test_it_shows_a_new_state_without_a_reload",
    "tests/pages/test_live.py::test_it_updates_a_row_and_tells_of_new_jobs_without_moving_the_others",
    "tests/pages/test_live.py::test_it_leaves_a_selected_row_alone_until_it_is_let_go",
    "tests/pages/test_log.py::test_it_follows_until_the_reader_scrolls_up_and_counts_what_is_new",
    "tests/pages/test_submit.py::test_it_tells_of_every_problem_under_its_line_and_mends_it",
    "tests/pages/test_submit.py::test_form_and_json_change_each_other_and_comments_stay",
    "tests/pages/test_terminal.py::test_its_page_is_loaded_again_with_the_same_shell",
)
# Where the program knows which database it has, locks rows, or writes in bulk.
DIFFERS = (
    *(
        f"tests/integration/test_{name}.py"
        for name in (
            "backup", "bulk", "database_away", "dependencies", "evictions", "history", "invariants", "joining", "lease",
            "main_job", "node_services", "processes", "recovery", "recovery_database", "rests", "services", "stamps",
            "tasks_race", "two_schedulers", "upgrade", "usage", "users", "vc_race", "wake",
        )
    ),
    *(f"tests/api/test_{name}.py" for name in ("guessing", "job_detail", "job_list", "token")),
)  # fmt: skip
# Sweeps over every route with everything that could be sent, which take minutes.
ONLY_WHOLE = ("tests/api/test_fuzz.py", "tests/api/test_schemathesis.py")

ENGINES = 4  # lanes of a whole run that share the acceptance tests
# Files that share a lane, with its HDFS or its portal: to start one takes ten seconds of the machine.
TOGETHER = (
    ("test_hdfs_store.py", "test_store_dies.py"),
    ("test_documents.py", "test_webhdfs_clients.py", "test_examples.py", "test_files_and_ssh.py", "test_pai_fs.py"),
    (
        "test_code_docker.py",
        "test_command.py",
        "test_command_inside.py",
        "test_extras_docker.py",
        "test_first_day.py",
        "test_hold_docker.py",
        "test_main_job.py",
        "test_paused_docker.py",
        "test_samples.py",
        "test_secrets_docker.py",
        "test_seeds.py",
    ),
)
# What runs on PostgreSQL alone where there is one: random histories of two schedulers, as it has several writers, and
# the sweep over every route with bodies and queries, as it is the stricter one.
ON_POSTGRES = ("tests/api/test_fuzz.py", "tests/integration/test_two_schedulers.py")


def gate() -> list[Lane]:
    """What every change must pass: all rules on SQLite, what can differ on PostgreSQL, each real part once. Hypothesis
    tries the same few examples each time, and what hangs on the clock stays out. What waits comes first, beside what
    computes: at the end it would leave a core idle."""
    no_postgres = postgres_bed.missing()
    few = {"LONGSHORE_SEEDS": "5", "TEST_RUN": "gate"}
    rules = shares([(file,) for file in _rules() if file not in ONLY_WHOLE], RULES, of="gate")
    return [
        Lane("parts", [*PARTS, "-m", "not timed"], few),
        Lane("browser", [*BROWSER, "-m", "not timed"], few, program=(*_apart(), *PYTEST)),
        *(
            Lane(f"sqlite-{nth}", [*files, "-m", "not timed"], few, polite=True, sure=True)
            for nth, files in enumerate(rules, 1)
        ),
        Lane(
            "postgres",
            [*DIFFERS, "-m", "not timed"],
            {**few, "DATABASE_URL": "postgres"},
            polite=True,
            sure=True,
            lacks=no_postgres,
        ),
        Lane("pages", ["tests/pages", "-m", "not timed and not browser"], few, polite=True),
        Lane("lint", [], program=("scripts/lint",), polite=True),
    ]


def everything() -> list[Lane]:
    """Every test, what hangs on the clock too. In the order in which lanes start: those that wait for engines beside
    those that compute. The cluster, which takes minutes, only where it is required or named."""
    database = ("tests/integration", "tests/api")
    no_postgres = postgres_bed.missing()
    with_engines = [Lane(f"engine-{nth}", files) for nth, files in enumerate(_engines(), 1)]
    return [
        *with_engines[:2],
        Lane("pages", ["tests/pages"], program=(*_apart(), *PYTEST)),
        Lane("sqlite", [*database, *([] if no_postgres else without(*ON_POSTGRES))], polite=True),
        *with_engines[2:],
        Lane(
            "postgres",
            [*dict.fromkeys((*DIFFERS, *ON_POSTGRES))],
            {"DATABASE_URL": "postgres"},
            polite=True,
            lacks=no_postgres,
        ),
        Lane("unit", ["tests/unit"], polite=True),
        Lane("kubernetes", ["tests/kubernetes"], lacks=kubernetes_bed.missing()),
        Lane("lint", [], program=("scripts/lint",), polite=True),
    ]


def without_cluster(lanes: list[Lane]) -> list[Lane]:
    """These, and why the cluster does not run unless it is required."""
    for lane in lanes:
        if lane.name == "kubernetes" and "kubernetes" not in os.environ.get("LONGSHORE_REQUIRE", "").split(","):
            lane.lacks = "it runs where LONGSHORE_REQUIRE names it, or by `make test ARGS=kubernetes`"
    return lanes


def _rules() -> list[str]:
    """The files of tests that need no real part but a database."""
    folders = ("unit", "api", "integration")
    return [str(path.relative_to(ROOT)) for ring in folders for path in (ROOT / "tests" / ring).glob("test_*.py")]


def without(*files: str) -> list[str]:
    return [f"--ignore={file}" for file in files]


def _apart() -> tuple[str, ...]:
    """In front of a command: a network of its own, where root runs this. Chromium drops what it is loading whenever the
    machine gets or loses an interface, and the engines of other lanes see to that all the time."""
    front = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    return front if os.geteuid() == 0 else ()


def _engines() -> list[list[str]]:
    """The files of the acceptance tests, for each lane that has engines."""
    found = {path.name for path in (ROOT / "tests" / "acceptance").glob("test_*.py")}
    together = [*TOGETHER, *((name,) for name in sorted(found.difference(*TOGETHER)))]
    return shares([tuple(f"tests/acceptance/{name}" for name in names) for names in together], ENGINES, of="all")
