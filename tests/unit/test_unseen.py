"""Short names that lists show have no signs that nobody sees; free texts may have all that people write."""

from __future__ import annotations

from typing import Any

import pytest

from base.core import words
from base.core.errors import InvalidConfig
from jobs.config.spec import JobSpec, read_value
from portal.shared.jobs.rows import gpu_text

ROLE = {"name": "w", "command": "x"}
GOOD: dict[str, Any] = {"jobName": "j", "image": "i", "taskRoles": [ROLE]}
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A100", ""),
        ("训练 größer é \U0001f600 ❤️", ""),
        ("A\u202e001", "U+202E at position 2"),
        ("\u2066A", "U+2066 at position 1"),
        ("A\u200b", "U+200B at position 2"),
        ("A\x1b[31m", "U+001B at position 2"),
        ("A\u3164", "U+3164 at position 2"),
        ("\U000e0041", "U+E0041 at position 1"),
    ],
)
def test_the_first_that_nobody_sees_is_named_with_its_place(text: str, said: str) -> None:
    assert words.unseen(text) == said
    assert (words.visible(text) == text) == (said == "")


@pytest.mark.parametrize("field", ["image", "gpuType"])
def test_a_config_with_one_in_a_short_name_is_refused(field: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        read_value({**GOOD, field: "hub/ab\u202ecd"})
    [problem] = refused.value.problems
    assert problem.path == f"/{field}"
    assert problem.message == f"{field} has U+202E at position 7, a sign that nobody sees: write it without."
    stored = JobSpec.from_json({**GOOD, field: "ab\u202ecd"})
    assert "\u202e" in str(stored.to_json()[field]), "what an older release took stays readable"
    assert gpu_text(8, "ab\u202ecd") == r"8 × ab\u202ecd"


def test_free_texts_have_what_people_write() -> None:
    role = {**ROLE, "command": f"echo {FAMILY} مرحبا\u200e 训练"}
    config = {**GOOD, "image": "hub/größe", "taskRoles": [role], "jobEnvs": {"NOTE": f"é {FAMILY}"}}
    asked = read_value({**config, "extras": {"description": f"{FAMILY} \u202btext\u202c"}})
    assert asked.task_roles[0].command == role["command"] and FAMILY in str(asked.extras["description"])
