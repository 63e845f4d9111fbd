"""What can be said of the examples without running them: their samples, programs, images and guides fit together."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jobs.config.samples import EXAMPLES, Sample
from tests.samples import spec_of

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs/examples"
PROGRAMS = sorted((GUIDES / "code").glob("*.py"))
STAND_INS = ROOT / "tests/stand_ins/code"
each_example = pytest.mark.parametrize("sample", EXAMPLES, ids=[sample.key for sample in EXAMPLES])


def options(program: Path) -> set[str]:
    return set(re.findall(r'add_argument\("(--?[\w-]+)"', program.read_text()))


@each_example
def test_its_image_is_one_that_a_dockerfile_makes_as_the_page_of_images_says(sample: Sample) -> None:
    repository, _, tag = spec_of(sample.config).image.partition(":")
    name = f"Dockerfile.{repository.removeprefix('longshore/')}"
    assert f"Dockerfiles/{name}" in sample.config
    page = (ROOT / "Dockerfiles/README.md").read_text()
    assert re.search(rf"docker build -t {repository}:{tag} .*Dockerfiles/{name}$", page, re.MULTILINE)
    versions = re.findall(r"^ARG \w+_VERSION=(\S+)", (ROOT / "Dockerfiles" / name).read_text(), re.MULTILINE)
    assert tag in [*versions, "1"]


@each_example
def test_its_commands_are_shell_and_name_programs_and_options_that_are_there(sample: Sample) -> None:
    for role in spec_of(sample.config).task_roles:
        subprocess.run([shutil.which("sh") or "sh", "-n", "-c", role.command], check=True)
        for program, rest in re.findall(r"\bcode/(\w+\.py)([^;&|]*)", role.command):
            assert (GUIDES / "code" / program).exists()
            assert set(re.findall(r"(?<= )--\w+", rest)) <= options(GUIDES / "code" / program)


@each_example
def test_its_variables_are_those_of_its_task(sample: Sample) -> None:
    spec = spec_of(sample.config)
    known = {"LONGSHORE_WEBHDFS_URL", *spec.job_envs, *(spec.extras.get("secrets") or {})}
    for role in spec.task_roles:
        used = set(re.findall(r"(?<!\$)\$\{?([A-Za-z_]\w*)", role.command)) - known
        assert all(name.startswith(("PAI_", "LONGSHORE_WEB_PATH_")) for name in used), used


@each_example
def test_it_has_a_guide_that_names_it(sample: Sample) -> None:
    guide = (GUIDES / f"{sample.key}.md").read_text()
    assert f"*{sample.title}*" in guide
    assert f"The guide: docs/examples/{sample.key}.md\n" in sample.config
    assert f"examples/{sample.key}.md" in (ROOT / "docs/examples.md").read_text()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_a_program_compiles_and_says_what_it_does(program: Path) -> None:
    tree = ast.parse(program.read_text(), program.name, feature_version=(3, 10))
    compile(tree, program.name, "exec")
    assert ast.get_docstring(tree)


@pytest.mark.parametrize("stand_in", sorted(STAND_INS.glob("*.py")), ids=lambda path: path.name)
def test_a_stand_in_takes_the_options_of_the_program_it_stands_for(stand_in: Path) -> None:
    if stand_in.name != "peers.py":
        assert options(stand_in) == options(GUIDES / "code" / stand_in.name)
