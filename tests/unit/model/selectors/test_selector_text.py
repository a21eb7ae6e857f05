# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Label selectors as text: the forms of ``kubectl --selector``, and the errors for all others."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.selector_text import label_requirements, match_labels

LABELS = {"app": "web", "tier": "", "example.com/size": "12"}


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=api", False),
        ("app!=web", False),
        ("app!=api", True),
        ("zone!=a", True),
        ("app", True),
        ("zone", False),
        ("!zone", True),
        ("!app", False),
        ("tier=", True),
        ("app=", False),
        ("app in (web,api)", True),
        ("app in (api)", False),
        ("zone in (a)", False),
        ("app notin (web, api)", False),
        ("zone notin (a)", True),
        ("tier in ()", True),
        ("example.com/size>11", True),
        ("example.com/size>12", False),
        ("example.com/size<13", True),
        ("app>1", False),
        ("zone<1", False),
        ("app=web,tier", True),
        ("app=web,zone", False),
        ("", True),
    ],
)
def test_labels_match_a_selector_as_the_api_server_matches_them(selector: str, matched: bool) -> None:
    assert match_labels(label_requirements({"x": [selector]}, "x"), LABELS) is matched


def test_every_one_of_several_selectors_must_match() -> None:
    assert match_labels(label_requirements({"x": ["app=web", "tier"]}, "x"), LABELS)
    assert not match_labels(label_requirements({"x": ["app=web", "zone"]}, "x"), LABELS)


def test_a_selector_that_ansible_split_at_its_commas_is_read_as_it_was_written() -> None:
    assert label_requirements({"x": ["app in (web", "api)", "tier"]}, "x") == ("app in (web,api)", "tier")


def test_no_selector_and_an_empty_one_select_everything() -> None:
    assert label_requirements({}, "x") == label_requirements({"x": None}, "x") == label_requirements({"x": [""]}, "x") == ()
    assert match_labels((), None)


@pytest.mark.parametrize(
    "selector",
    [
        "app=(",
        "app in web",
        "app in (web",
        "a b",
        "=web",
        "!",
        "!app=web",
        "app===web",
        "app=web,",
        ",app",
        "app>x",
        "app>",
        "app=we b",
        "-app",
    ],
)
def test_an_invalid_selector_is_refused_by_name(selector: str) -> None:
    with pytest.raises(OptionError, match=r"^label_selectors: '"):
        label_requirements({"label_selectors": [selector]}, "label_selectors")


def test_an_error_does_not_show_a_url_because_it_may_have_a_password() -> None:
    with pytest.raises(OptionError, match="is not a label") as error:
        label_requirements({"x": ["app=https://me:secret@example.org"]}, "x")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        ("app=web,tier=a$", "'a\\$' in 'tier=a\\$' is not a label value"),
        ("bad..key/=x", "'bad..key/' in "),
        ("a=1,b<x", "'x' in 'b<x' is not a whole"),
    ],
)
def test_the_error_names_the_part_that_is_wrong(selector: str, named: str) -> None:
    with pytest.raises(OptionError, match=named):
        label_requirements({"x": [selector]}, "x")
