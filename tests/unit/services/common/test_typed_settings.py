# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Declared types are made from plain values. All mistakes are named, and none of them shows a value that may be secret."""

from __future__ import annotations

import enum
import typing as t

import msgspec
import pytest
from ansible_collections.onprem.kube_scheduling.services.common.kinds import (
    SWITCH,
    Kind,
    Text,
    exact_seconds,
    names,
    number,
    one_of,
    positive,
    seconds,
    whole,
)
from ansible_collections.onprem.kube_scheduling.services.common.typed_settings import Mistakes, read


class Colour(enum.Enum):
    RED = "red"


class Wheel(msgspec.Struct, frozen=True):
    size: t.Annotated[int, whole(1, 9)]
    name: Text = "front"


class Car(msgspec.Struct, frozen=True, kw_only=True):
    """A type as a third party may declare it."""

    wheels: tuple[Wheel, ...] = ()
    spare: Wheel | None = None
    doors: list[str] = msgspec.field(default_factory=list)
    speed: float = 1.5
    load: int | str = "none"
    labels: dict[str, int] = msgspec.field(default_factory=dict)
    colour: Colour = Colour.RED
    drive: t.Literal["front", "rear"] = "front"
    seats: t.Annotated[int, msgspec.Meta(ge=1)] = 4
    max_age: int = msgspec.field(default=1, name="max_age_s")

    def __post_init__(self) -> None:
        if self.speed > 9 and not self.wheels:
            raise ValueError("speed is too high without wheels")


def made(**given: t.Any) -> tuple[Car | None, list[str]]:
    mistakes = Mistakes()
    return read(Car, given, (), mistakes), [str(one) for one in mistakes]


def test_values_of_every_type_are_read() -> None:
    given = {
        "wheels": [{"size": 3}, {"size": "4", "name": "rear"}],
        "spare": {"size": 9},
        "doors": "left",
        "speed": 3,
        "load": 7,
        "labels": {"a": 1},
        "colour": "red",
        "drive": "rear",
        "seats": 2,
        "max_age_s": 5,
    }
    car, mistakes = made(**given)
    assert mistakes == [] and car == Car(
        wheels=(Wheel(3), Wheel(4, "rear")),
        spare=Wheel(9),
        doors=["left"],
        speed=3.0,
        load=7,
        labels={"a": 1},
        drive="rear",
        seats=2,
        max_age=5,
    )


def test_a_key_without_a_value_has_the_default() -> None:
    assert made(wheels=None, spare=None, speed=None) == (Car(), [])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"sped": 1}, ["sped is not a setting; the nearest is speed"]),
        ({"spare": {"sise": 1}}, ["spare.sise is not a setting; the nearest is size", "spare.size is missing"]),
        (
            {"wheels": [{"size": 0}, 5]},
            ["wheels[0].size is 0: it must be a whole number from 1 to 9", "wheels[1] is 5: it must be a mapping"],
        ),
        ({"wheels": {"size": 1}}, ["wheels is a mapping: it must be a list"]),
        ({"doors": [1]}, ["doors[0] is 1: it must be a text"]),
        (
            {"speed": "fast", "max_age_s": []},
            ["speed is 'fast': it must be a number", "max_age_s is an empty list: it must be a whole number"],
        ),
        ({"load": [1]}, ["load is a list: it must be a value of the type int | str"]),
        ({"labels": {"a": "b"}}, ["labels is a mapping: it must be a value of the type dict[str, int]"]),
        ({"colour": "http://a:secret@b"}, ["colour is a text with :// or @: it must be a value of the type "]),
        ({"drive": "all"}, ["drive is 'all': it must be one of front, rear"]),
        ({"seats": 0}, ["seats is 0: it must be a value of the type "]),
        ({"speed": 10}, ["speed is too high without wheels"]),
    ],
)
def test_each_mistake_is_named_with_its_path(given: dict[str, t.Any], wanted: list[str]) -> None:
    _car, mistakes = made(**given)
    assert len(mistakes) == len(wanted) and all(text.startswith(start) for text, start in zip(mistakes, wanted, strict=True)), mistakes


def test_a_wrong_value_has_the_default_and_causes_no_second_mistake() -> None:
    mistakes = Mistakes()
    car = read(Car, {"speed": "fast", "seats": 2}, ("car",), mistakes)
    assert car == Car(seats=2) and [one.path for one in mistakes] == [("car", "speed")]
    _car, texts = made(speed=10, seats="x")
    assert texts == ["seats is 'x': it must be a value of the type typing.Annotated[int, msgspec.Meta(ge=1)]"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (whole(), {5: 5, "-5": -5}, (True, 1.5, "", "9" * 5000, None, [])),
        (whole(1, 9), {9: 9, " 1 ": 1}, (0, 10, 10**400)),
        (number(0, 1), {0: 0.0, 0.5: 0.5}, (-0.1, 1.1, float("nan"), True, "0.5", 10**400)),
        (number(), {-1: -1.0}, (float("inf"), float("nan"), 10**400)),
        (positive(1), {1: 1.0, 5e-324: 5e-324}, (0, -1, 2)),
        (seconds(), {"1m30s": 90, 5: 5}, (0, "soon", 1.5, "1.5s", 10**400, "2y")),
        (exact_seconds(0.1, 60), {0.5: 0.5, "30s": 30.0}, (0, 61.0, float("nan"), "x", 10**400)),
        (one_of("a", "b"), {"a": "a"}, ("c", True, [], {})),
        (names(), {"a, b": ["a", "b"]}, (5, [1], {})),
        (names("KIND", "a", "b"), {"a": ["a"]}, ("a,c",)),
        (SWITCH, {"Yes": True, "0": False, True: True}, ("perhaps", 5, [])),
    ],
)
def test_the_kinds_of_values(kind: Kind, good: dict[t.Any, t.Any], bad: tuple[t.Any, ...]) -> None:
    assert {value: kind.parse(value) for value in good} == good
    for value in bad:
        with pytest.raises(ValueError, match=r"^(it must be |'c' is not one of)"):
            kind.parse(value)
