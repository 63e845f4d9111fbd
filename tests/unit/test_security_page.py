"""The page about security says what the tests look at, and the tests look at all that it says."""

from __future__ import annotations

from tests.acceptance.test_inside_docker import CHECKS, lines_of_the_page


def test_every_line_about_the_inside_of_a_container_is_looked_at_from_inside_one() -> None:
    assert list(lines_of_the_page()) == list(CHECKS)
