"""The extras that Longshore knows; every other one is free storage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from base.core.errors import InvalidConfig
from clusters.placement.topology import LEVEL_NODE, NEAREST, Topology
from jobs.config.demands import demands, shapes
from jobs.config.extras import NOTHING, After, extras_of
from jobs.config.spec import JobSpec, read_config
from tests.unit.test_spec import GOOD, messages_of, problems_of, read


def test_a_job_without_extras_asks_nothing() -> None:
    assert read().asked is NOTHING
    assert (NOTHING.priority, NOTHING.node_labels, NOTHING.max_run_seconds) == (0, {}, None)
    assert (NOTHING.preemptible, NOTHING.depends_on) == (False, ())


def test_what_it_asks_is_read_with_its_types() -> None:
    extras = {"priority": "7", "nodeLabels": {"disk": "ssd"}, "maxRunSeconds": 60, "preemptible": "true"}
    asks = read(extras={**extras, "dependsOn": ["one", {"job": "two", "after": "end"}]}).asked
    assert (asks.priority, asks.node_labels, asks.max_run_seconds, asks.preemptible) == (7, {"disk": "ssd"}, 60, True)
    assert asks.depends_on == (After(job="one"), After(job="two", after="end"))
    assert asks.depends_on[0].after == "success"


def test_other_extras_are_left_alone() -> None:
    free = {"submitFrom": "nfs", "Priority": "high", "node_labels": 5, "x": [1, None]}
    assert read(extras=free).extras == free
    assert read(extras=free).asked == NOTHING


A_LEVEL = 'a level of the label topology: a whole number from 1 to 16, or "node".'


@pytest.mark.parametrize(
    ("value", "topology"),
    [
        ({"prefer": 2}, Topology(2)),
        ({"require": "1"}, Topology(1, True)),
        ('{"require": "node"}', Topology(LEVEL_NODE, True)),
        (None, NEAREST),
    ],
)
def test_the_level_of_the_topology_is_in_each_demand(value: object, topology: Topology) -> None:
    spec = read(extras={"topology": value})
    assert spec.asked.closeness == topology
    assert (
        {demand.topology for demand in demands(spec)} == {demand.topology for demand, _ in shapes(spec)} == {topology}
    )


@pytest.mark.parametrize(
    "extras, message",
    [
        ({"priority": "high"}, 'priority is "high"; it must be a whole number.'),
        ({"priority": None}, "priority is null; it must be a whole number."),
        ({"priority": True}, "priority is true; it must be a whole number."),
        ({"priority": 101}, "priority is 101; the most is 100."),
        ({"priority": -101}, "priority is -101; the least is -100."),
        ({"nodeLabels": ["ssd"]}, "nodeLabels is an array; it must be an object: { ... }."),
        ({"nodeLabels": {"rank": 4}}, "rank is 4; it must be a text in double quotes."),
        ({"nodeLabels": {str(n): "" for n in range(65)}}, "nodeLabels has 65 entries; the most is 64."),
        ({"maxRunSeconds": 0}, "maxRunSeconds is 0; the least is 1."),
        ({"maxRunSeconds": 1.5}, "maxRunSeconds is 1.5; it must be a whole number."),
        ({"preemptible": 1}, "preemptible is 1; it must be true or false."),
        *(
            ({"topology": {key: value}}, f"{key} is {json.dumps(value)}; it must be {A_LEVEL}")
            for key, value in [("prefer", 0), ("require", -1), ("prefer", "rack"), ("require", 99), ("require", "99")]
        ),
        ({"topology": {"prefer": None}}, f"prefer is null; it must be {A_LEVEL}"),
        ({"topology": {"prefer": [1]}}, f"prefer is an array; it must be {A_LEVEL}"),
        ({"topology": {"prefer": 1, "require": 1}}, "topology has both prefer and require; it must have one of them."),
        ({"topology": {}}, "topology has neither prefer nor require; it must have one of them."),
        ({"topology": {"level": 1, "prefer": 1}}, "level is not a known field."),
        ({"topology": [2]}, "topology is an array; it must be an object: { ... }."),
        ({"topology": "rack"}, 'topology is "rack"; it must be an object: { ... }.'),
        ({"dependsOn": "a"}, 'dependsOn is "a"; it must be an array: [ ... ].'),
        ({"dependsOn": [5]}, "dependsOn[0] is 5; it must be an object: { ... }."),
        ({"dependsOn": ["a b"]}, 'job is "a b"; it may only contain letters, digits, dash, dot and underscore.'),
        ({"dependsOn": [{"after": "end"}]}, "job is missing."),
        ({"dependsOn": [{"job": "a", "after": "start"}]}, 'after is "start"; it must be success or end.'),
        ({"dependsOn": [{"job": "a", "since": 1}]}, "since is not a known field."),
        ({"dependsOn": ["a", {"job": "a", "after": "end"}]}, "a stands in dependsOn twice."),
        ({"dependsOn": [str(n) for n in range(101)]}, "dependsOn has 101 entries; the most is 100."),
    ],
)
def test_a_wrong_value_of_a_known_one_is_refused_in_plain_english(extras: dict[str, Any], message: str) -> None:
    assert messages_of(extras=extras) == [message]


def test_it_says_where_each_wrong_value_stands() -> None:
    config = """{"jobName": "j", "image": "i", "taskRoles": [{"name": "w", "command": "c"}],
      "extras": {
        "priority": 1000,
        "dependsOn": ["ok", "not ok"],
        "maxRunSeconds": "soon"
      }
    }"""
    problems = problems_of(lambda: read_config(config))
    assert [(problem.line, problem.path) for problem in problems] == [
        (3, "/extras/priority"),
        (4, "/extras/dependsOn/1/job"),
        (5, "/extras/maxRunSeconds"),
    ]
    assert problems[0].column == 21
    assert problems[1].column == 29


@pytest.mark.parametrize(
    "extras, says",
    [
        ({"priority": 101}, '[child "priority" fails because ["priority" must be less than or equal to 100]]'),
        (
            {"topology": {"prefer": 0}},
            '[child "topology" fails because [child "prefer" fails because ["prefer" must be a level]]]',
        ),
        ({"preemptible": 2}, '[child "preemptible" fails because ["preemptible" must be a boolean]]'),
        (
            {"dependsOn": [{"job": "a", "after": 1}]},
            '[child "dependsOn" fails because ["dependsOn" at position 0 fails because'
            ' [child "after" fails because ["after" must be one of [success, end]]]]]',
        ),
    ],
)
def test_the_message_of_the_api_is_worded_as_in_v1(extras: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        read(extras=extras)
    assert refused.value.message == f'child "extras" fails because {says}'


def test_a_wrong_value_that_an_older_release_stored_asks_nothing() -> None:
    stored = JobSpec.from_json({**GOOD, "extras": {"priority": "high", "preemptible": True, "dependsOn": [{}]}})
    assert stored.asked == extras_of({"preemptible": True})
