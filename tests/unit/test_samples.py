from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from jobs.config.samples import FIRST_STEPS, SAMPLE_IMAGE, SAMPLES, Sample
from tests.samples import spec_of

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=[sample.key for sample in SAMPLES])
each_first = pytest.mark.parametrize("sample", FIRST_STEPS, ids=[sample.key for sample in FIRST_STEPS])


@each_sample
def test_it_is_a_valid_config_named_by_its_key(sample: Sample) -> None:
    spec = spec_of(sample.config)
    assert spec.job_name.removesuffix("-01") == sample.key
    assert (spec.image == SAMPLE_IMAGE) == (sample in FIRST_STEPS)
    assert spec.total_gpus == 0
    cores = sum(role.task_number * role.cpu_number for role in spec.task_roles)
    assert cores <= (4 if sample.key == "tensorflow" else 2), "docs/examples.md says how many"
    assert "//" in sample.config


@each_sample
def test_it_can_be_given_a_fresh_name(sample: Sample) -> None:
    assert spec_of(sample.named("x7")).job_name.removesuffix("-01") == f"{sample.key}-x7"
    assert sample.named("x7").count("x7") == 1


@each_first
def test_its_commands_are_shell_that_needs_nothing_but_busybox(sample: Sample) -> None:
    programs = {"echo", "sleep", "exec", "httpd", "until", "wget", "do", "[", "exit", "done", "tail"}
    for role in spec_of(sample.config).task_roles:
        shell = shutil.which("sh")
        assert shell
        subprocess.run([shell, "-n", "-c", role.command], check=True)
        words = re.sub(r"'[^']*'|\"[^\"]*\"|\$\(\([^)]*\)\)", "_", role.command)
        firsts = {part.split()[0] for part in re.split(r"&&|\|\||;", words) if part.split()}
        assert {first for first in firsts if "=" not in first} <= programs


def test_the_keys_are_the_five_kinds() -> None:
    keys = ["hello-world", "two-roles", "fails", "too-much-memory", "out-of-time"]
    assert [sample.key for sample in FIRST_STEPS] == keys


def test_the_last_one_shows_extras() -> None:
    asked = spec_of(FIRST_STEPS[-1].config).asked
    assert (asked.max_run_seconds, asked.priority, asked.preemptible) == (10, -10, True)


def test_the_workers_end_the_job_of_two_roles() -> None:
    spec = spec_of(next(sample.config for sample in SAMPLES if sample.key == "two-roles"))
    assert spec.role("worker").min_succeeded_task_count == spec.role("worker").task_number
    assert spec.role("server").min_succeeded_task_count is None


def test_the_failing_job_is_tried_once_more() -> None:
    assert spec_of(next(sample.config for sample in SAMPLES if sample.key == "fails")).retry_count == 1


@each_first
def test_every_first_step_runs_on_a_machine_of_two_cores(sample: Sample) -> None:
    spec = spec_of(sample.config)
    assert sum(role.task_number * role.cpu_number for role in spec.task_roles) <= 2
