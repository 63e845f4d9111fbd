"""Places of which there are few."""

from __future__ import annotations

from base.serving.places import Places


def test_one_user_has_half_and_others_the_rest() -> None:
    places = Places(4)
    assert [places.take("eve") for _ in range(3)] == [True, True, False]
    assert [places.take(user) for user in ("mira", "omar", "lena")] == [True, True, False]
    places.give_back("mira")
    assert not places.take("eve")
    assert places.take("lena")


def test_who_gives_back_has_as_many_again_and_not_more() -> None:
    places = Places(2)
    for _ in range(3):
        assert places.take("eve") and not places.take("eve")
        places.give_back("eve")
    places.give_back("eve")
    assert places.take("eve") and not places.take("eve")


def test_the_only_place_is_anybodys() -> None:
    places = Places(1)
    assert places.take("eve") and not places.take("mira")
