# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An edited YAML text has the wanted value, and every other line as it was."""

from __future__ import annotations

import copy
import difflib
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.go_yaml import YamlTextError, compose
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.yaml_editing import edit, same_value
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.yaml_rendering import render

Json = dict[str, Any]

TEXT = """\
# The scheduler of the cluster.
---
apiVersion: kubescheduler.config.k8s.io/v1   # the newest one
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}  # three replicas

profiles:
  # For all pods without a schedulerName.
  - schedulerName: default-scheduler
    plugins:
      score:
        disabled:
        - name: "ImageLocality"   # images are everywhere
    # The end of default-scheduler.
  # For quiet nodes.
  - schedulerName: 'network-traffic'
    pluginConfig: []
# One process for all profiles.
extenders:
- urlPrefix: "http://127.0.0.1:8080"  # on this host
  weight: 1 # as one plugin
  ignorable: true
# The end.
"""


def value_of(text: str) -> Any:
    return compose(text)[1]


def changes(change: Callable[[Json], object], text: str = TEXT) -> list[str]:
    """Return the removed and added lines of an edit."""
    wanted = copy.deepcopy(value_of(text))
    change(wanted)
    edited = edit(text, wanted)
    assert edited.keeps_comments and same_value(value_of(edited.text), wanted)
    assert edit(edited.text, wanted).text == edited.text
    lines = list(difflib.unified_diff(text.splitlines(), edited.text.splitlines(), lineterm="", n=0))
    return [line for line in lines[2:] if not line.startswith("@@")]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        pytest.param(lambda _config: None, [], id="nothing"),
        pytest.param(
            lambda config: config["extenders"][0].update(weight=5),
            ["-  weight: 1 # as one plugin", "+  weight: 5 # as one plugin"],
            id="a value",
        ),
        pytest.param(lambda config: config["extenders"][0].update(httpTimeout="200ms"), ["+  httpTimeout: 200ms"], id="a new key"),
        pytest.param(lambda config: config["extenders"][0].pop("weight"), ["-  weight: 1 # as one plugin"], id="a removed key"),
        pytest.param(lambda config: config.update(parallelism=8), ["+parallelism: 8"], id="a new key of the document"),
        pytest.param(
            lambda config: config["profiles"].append({"schedulerName": "a", "percentageOfNodesToScore": 5}),
            ["+  - schedulerName: a", "+    percentageOfNodesToScore: 5"],
            id="a new entry",
        ),
        pytest.param(
            lambda config: config["profiles"].pop(1),
            ["-  - schedulerName: 'network-traffic'", "-    pluginConfig: []"],
            id="a removed entry",
        ),
        pytest.param(lambda config: config["profiles"].pop(0), [f"-{line}" for line in TEXT.splitlines()[8:14]], id="the first entry"),
        pytest.param(lambda config: config.pop("extenders"), [f"-{line}" for line in TEXT.splitlines()[18:22]], id="a removed list"),
        pytest.param(
            lambda config: config["leaderElection"].update(resourceName="a"),
            [
                "-leaderElection: {leaderElect: true}  # three replicas",
                "+leaderElection: {leaderElect: true, resourceName: a}  # three replicas",
            ],
            id="a mapping in one line",
        ),
        pytest.param(
            lambda config: config["profiles"][1].update(pluginConfig=[{"name": "NodeAffinity", "args": {}}]),
            ["-    pluginConfig: []", "+    pluginConfig:", "+    - name: NodeAffinity", "+      args: {}"],
            id="an empty list",
        ),
        pytest.param(
            lambda config: config["extenders"].insert(0, {"urlPrefix": "http://a"}), ["+- urlPrefix: http://a"], id="an entry in front"
        ),
        pytest.param(
            lambda config: config["extenders"].__setitem__(0, {"urlPrefix": "http://b"}),
            [
                '-- urlPrefix: "http://127.0.0.1:8080"  # on this host',
                "-  weight: 1 # as one plugin",
                "-  ignorable: true",
                "+- urlPrefix: http://b",
            ],
            id="another entry",
        ),
    ],
)
def test_only_the_lines_of_the_change_differ(change: Callable[[Json], object], lines: list[str]) -> None:
    assert changes(change) == lines


def test_line_ends_of_windows_are_kept() -> None:
    text = TEXT.replace("\n", "\r\n")
    edited = edit(text, {**value_of(text), "parallelism": 8}).text
    assert edited.count("\r\n") == edited.count("\n") == text.count("\n") + 1


def test_a_json_text_stays_json() -> None:
    assert edit('{"a": 1, "b": [2]}', {"a": 1, "b": [2, 3]}).text == '{\n  "a": 1,\n  "b": [\n    2,\n    3\n  ]\n}\n'


def test_a_text_without_a_last_line_break() -> None:
    assert edit("a: 1\nb: 2", {"a": 1, "b": 2, "c": [3]}).text == "a: 1\nb: 2\nc:\n- 3\n"


def test_a_block_text_is_replaced() -> None:
    assert edit("a: |\n  one\n  two\nb: 1\n", {"a": "x", "b": 1}).text == "a: x\nb: 1\n"


def test_a_text_with_aliases_is_written_again_and_says_so() -> None:
    edited = edit("a: &x {b: 1}  # comment\nc: *x\n", {"a": {"b": 1}, "c": {"b": 2}})
    assert not edited.keeps_comments and value_of(edited.text) == {"a": {"b": 1}, "c": {"b": 2}}


@pytest.mark.parametrize(
    "text",
    ["yes", "y", "N", "1e3", "0o7", "010", ".5", "1:30", "null", "~", "2001-01-01", "- a", "a: b", "#", "", " ", "*", "0x1f", "1_000"],
)
def test_a_text_is_written_so_that_it_is_read_as_a_text(text: str) -> None:
    assert value_of(render({"a": text})) == {"a": text} and value_of(edit("a: 1\n", {"a": text}).text) == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("yes", True),
            ("off", False),
            ("y", True),
            ("N", False),
            ("1e3", 1000.0),
            ("0o17", 15),
            ("017", 15),
            ("0x1F", 31),
            ("1_000", 1000),
            ("-5", -5),
        ),
        *((".5", 0.5), ("2001-01-01", "2001-01-01"), ("1:30", "1:30"), ("~", None), ("0b11", 3), ("08", 8.0), ("1.5.2", "1.5.2")),
    ],
)
def test_scalars_have_the_types_of_go(text: str, value: object) -> None:
    assert same_value(value_of(f"a: {text}"), {"a": value})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: the key a is there twice"),
        ("a: [1", "line 1"),
        ("a: 1\n---\nb: 2\n", "line 2"),
        ("a: !!python/object:os.system x", "line 1"),
        ("? [a]\n: 1", "is no key"),
        ("[" * 200 + "]" * 200, "too many levels"),
        ("a: *x", "line 1"),
        (
            "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdef")),
            "more than",
        ),
        ("a: 1\n\tb: 2", "line 2"),
    ],
)
def test_a_text_that_is_no_yaml_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(YamlTextError, match=said):
        compose(text)


def test_a_key_after_a_question_mark_is_written_again() -> None:
    edited = edit("? a\n: 1\n", {"a": 1, "b": 2})
    assert value_of(edited.text) == {"a": 1, "b": 2}


def test_true_is_not_one() -> None:
    assert not same_value({"a": True}, {"a": 1}) and same_value({"a": 1.0, "b": 2}, {"b": 2, "a": 1})


def test_random_edits_have_the_wanted_value_and_keep_all_other_comments() -> None:
    """Random values are written in several styles and changed into other random values that share parts with them."""
    numbers = random.Random(4711)
    kept = 0
    for _case in range(400):
        value = _random_mapping(numbers, 3)
        text = _commented(yaml.safe_dump(value, sort_keys=False, default_flow_style=numbers.choice([False, False, None])), numbers)
        assert same_value(value_of(text), value), text
        wanted = _changed(value, numbers)
        edited = edit(text, wanted)
        assert same_value(value_of(edited.text), wanted), f"{text}\n{wanted}\n{edited.text}"
        kept += edited.keeps_comments
    assert kept > 380


def _random_mapping(numbers: random.Random, levels: int) -> Json:
    return {numbers.choice("abcdefg"): _random_value(numbers, levels - 1) for _number in range(numbers.choice([1, 2, 3]))}


def _random_value(numbers: random.Random, levels: int) -> Any:
    kind = numbers.choice(["text", "number", "mapping", "list", "entries", "empty"]) if levels else numbers.choice(["text", "number"])
    if kind == "mapping":
        return _random_mapping(numbers, levels)
    if kind == "list":
        return [_random_value(numbers, levels - 1) for _number in range(numbers.choice([1, 2]))]
    if kind == "entries":
        return [{"name": name, **_random_mapping(numbers, levels)} for name in numbers.sample("tuvwxz", numbers.choice([1, 2, 3]))]
    texts = ["x", "two words", "a: b", "#", "1", "yes", "", "line\nbreak\n", "200ms"]
    return {"text": numbers.choice(texts), "number": numbers.choice([1, 2.5, True, None])}.get(kind, numbers.choice([{}, []]))


def _changed(value: Any, numbers: random.Random) -> Any:
    if isinstance(value, dict) and value:
        result = {key: _changed(one, numbers) for key, one in value.items() if numbers.random() < 0.85 or len(value) == 1}
        return {**result, **(_random_mapping(numbers, 2) if numbers.random() < 0.2 else {})}
    if isinstance(value, list) and value:
        kept = [_changed(one, numbers) for one in value if numbers.random() < 0.8]
        if numbers.random() < 0.3:
            kept.insert(numbers.randrange(len(kept) + 1), {"name": "new", "n": 1})
        return kept
    return _random_value(numbers, 2) if numbers.random() < 0.1 else value


def _commented(text: str, numbers: random.Random) -> str:
    """Add comment lines and comments at the ends of lines to a text without multi-line scalars."""
    if any(mark in text for mark in ("|", '"', "'", "  \n", "line")):
        return text
    lines = []
    for line in text.splitlines():
        if numbers.random() < 0.2:
            lines.append(" " * numbers.choice([0, 2, len(line) - len(line.lstrip())]) + "# comment")
        lines.append(line + ("  # end" if numbers.random() < 0.2 else ""))
    return "\n".join(lines) + numbers.choice(["\n", ""])
