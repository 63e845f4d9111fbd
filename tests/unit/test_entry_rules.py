"""Rules that turn groups of a provider into rights."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from base.models import SignInRule
from clusters.users.entry_rules import decide
from tests.helpers import examples

NAMES = st.sampled_from(["vision", "nlp", "staff", ""])
VCS = st.lists(st.sampled_from(["vision", "nlp", "default"]), unique=True)
RULES = st.lists(
    st.builds(
        SignInRule,
        provider=st.sampled_from(["lab", "uni", ""]),
        group=NAMES,
        lets_in=st.booleans(),
        role=st.sampled_from(["", "admin"]),
        vcs=VCS,
        priority=st.none() | st.integers(0, 100),
    ),
    max_size=4,
)
GROUPS = st.sets(st.sampled_from(["vision", "nlp", "staff", "bikes"]))


def fits(rule: SignInRule, groups: Collection[str]) -> bool:
    return rule.provider in ("", "lab") and (not rule.group or rule.group in groups)


@settings(max_examples=examples(30))
@given(RULES, GROUPS)
def test_the_first_that_fits_decides_and_later_ones_add_virtual_clusters_only(
    rules: list[SignInRule], groups: set[str]
) -> None:
    outcome = decide(rules, "lab", groups)
    fit = [rule for rule in rules if fits(rule, groups)]
    assert outcome.lets_in == bool(fit and fit[0].lets_in)
    assert len(outcome.steps) == len(rules)
    if not outcome.lets_in:
        assert (outcome.role, dict(outcome.vcs)) == ("", {})
        return
    assert rules[outcome.by - 1] is fit[0] and outcome.role == fit[0].role
    assert set(outcome.vcs) == {vc for rule in fit if rule.lets_in for vc in rule.vcs}
    for vc, number in outcome.vcs.items():
        assert vc in rules[number - 1].vcs and fits(rules[number - 1], groups)
        assert outcome.priorities[vc] == rules[number - 1].priority


@settings(max_examples=examples(30))
@given(RULES, GROUPS)
def test_who_gives_less_of_themselves_gets_no_admin(rules: list[SignInRule], groups: set[str]) -> None:
    """Nobody is admin unless a rule that fits says so, and nobody gets in where there is no rule."""
    outcome = decide(rules, "lab", groups)
    assert outcome.role != "admin" or any(fits(rule, groups) and rule.role == "admin" for rule in rules)
    assert not decide([], "lab", groups).lets_in
    assert not decide([rule for rule in rules if rule.provider == "uni"], "lab", groups).lets_in
