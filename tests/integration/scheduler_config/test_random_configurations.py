# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules and the real kube-scheduler give the same answer to random configurations.

SCHEDULER_CONFIGS sets how many (200; 5,000 under SOAK=1), SCHEDULER_CONFIG_SEED the first seed: the same seed gives the same configuration.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import (
    INVALID,
    NEEDS_GATE,
    UNKNOWN_FIELD,
    UNSAFE,
    Problem,
    SchedulerConfigError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.validation import config_problems
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import ConfigTarget
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.profile_plan import plan_profile

from lab import binaries
from tests.integration.conftest import SUMMARY
from tests.integration.kubernetes_version import MINOR, VERSION
from tests.integration.scheduler_config.random_configurations import CURRENT, IN_TREE, Json, RandomConfigurations
from tests.integration.scheduler_config.scheduler_program import Answer, ask, existing_files
from tests.unit.scheduler_config.configurations import EXTENDER, arguments, configuration, plugins, profile
from tests.unit.scheduler_config.test_profile_plan import DEFAULTS

SOAK = os.environ.get("SOAK") == "1"
CASES = int(os.environ.get("SCHEDULER_CONFIGS", "5000" if SOAK else "200"))
SEED = int(os.environ.get("SCHEDULER_CONFIG_SEED", str(time.time_ns() % 10**9) if SOAK else "3636"))
LEAST_SHARE = 0.2
"""At least this share of the configurations is valid, and at least this share is not."""

TARGET = ConfigTarget("v1", MINOR)
OPTIONS = {**DEFAULTS, "kubernetes_version": VERSION}
REFUSED = {INVALID, UNKNOWN_FIELD, NEEDS_GATE}
"""The kinds of problems with which kube-scheduler does not accept a file, while all feature gates have their defaults."""


CHANGES: list[Json] = [
    {"name": "another", "extenders": [{**EXTENDER, "urlPrefix": "http://127.0.0.1:9999/x"}]},
    {"name": "another", "plugins": plugins("score", disabled=("ImageLocality",)), "percentage_of_nodes_to_score": 50},
    {"name": "another", "extenders": [{"urlPrefix": "http://127.0.0.1:9999/x"}], "state": "absent"},
]
"""Options of the module, in the order in which it gets them."""


class Compared(NamedTuple):
    """The problems that the rules find in a configuration, and the scheduler's answer to it."""

    seed: int
    problems: list[Problem]
    answer: Answer

    @property
    def valid(self) -> bool:
        return not any(problem.kind in REFUSED for problem in self.problems)

    def __str__(self) -> str:
        found = "\n".join(f"  {problem.kind}: {problem}" for problem in self.problems) or "  no problem"
        return f"SCHEDULER_CONFIG_SEED={self.seed} SCHEDULER_CONFIGS=1\n{found}\nkube-scheduler: {self.answer.text or 'accepted'}"


@pytest.fixture(scope="module")
def ask_scheduler(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Json | str, str], Answer]:
    """Ask the real kube-scheduler. The second argument names the file."""
    program, folder = str(binaries.ensure() / "kube-scheduler"), tmp_path_factory.mktemp("configurations")
    return lambda config, name: ask(program, config, folder / f"{name}.yaml")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return existing_files(tmp_path_factory.mktemp("files"))


def test_the_rules_agree_with_the_scheduler(
    ask_scheduler: Callable[[Json | str, str], Answer], files: dict[str, str], record_property: Callable[[str, object], None]
) -> None:
    def compare(seed: int) -> Compared:
        config = RandomConfigurations(seed, files).configuration()
        return Compared(seed, config_problems(config, TARGET), ask_scheduler(config, str(seed)))

    with ThreadPoolExecutor(max_workers=2) as pool:
        compared = list(pool.map(compare, range(SEED, SEED + CASES)))
    disagreements = [one for one in compared if one.valid != one.answer.accepted]
    kinds = Counter("valid" if one.valid else "refused" for one in compared)
    record_property(SUMMARY, f"{CASES} scheduler configurations: {dict(kinds)}, {len(disagreements)} disagreements, seed {SEED}")
    assert not disagreements, "\n\n".join(map(str, disagreements[:5]))
    assert CASES < 50 or min(kinds["valid"], kinds["refused"]) >= LEAST_SHARE * CASES, kinds


def test_the_scheduler_accepts_every_file_that_the_module_writes(
    ask_scheduler: Callable[[Json | str, str], Answer], files: dict[str, str]
) -> None:
    """The module adds a profile and an extender to random files, changes them and removes them again, or refuses the file."""
    written = 0
    for seed in range(SEED, SEED + CASES // 4):
        config = RandomConfigurations(seed, files).configuration()
        text: str | None = yaml.safe_dump(config, sort_keys=seed % 2 == 0, default_flow_style=None if seed % 3 == 0 else False)
        for change in CHANGES:
            try:
                plan = plan_profile(text, {**OPTIONS, **change}, "the file")
            except SchedulerConfigError:
                continue
            text = plan.after
            assert text is not None and yaml.safe_load(text) == plan.config, f"seed {seed}"
            assert not plan_profile(text, {**OPTIONS, **change}, "the file").changed, f"seed {seed}"
            if not any(problem.kind in REFUSED for problem in config_problems(plan.config, TARGET)):
                answer = ask_scheduler(text, f"written-{seed}")
                assert answer.accepted, f"seed {seed}: {answer.text}\n{text}"
                written += 1
    assert written >= CASES // 4


def test_the_table_has_the_extension_points_of_every_plugin(
    ask_scheduler: Callable[[Json | str, str], Answer], files: dict[str, str], tmp_path: Path
) -> None:
    """Enable each plugin at each extension point, without the default plugins."""

    def accepts(plugin: str, point: str) -> bool:
        needed = plugins("multiPoint", "PrioritySort", "DefaultBinder", disabled=("*",))
        config = configuration(profiles=[profile(plugins={**needed, **plugins(point, plugin)})], clientConnection=files_of(files))
        answer = ask_scheduler(config, f"{plugin}-{point}")
        assert answer.accepted or "does not extend" in answer.text, answer.text
        return answer.accepted

    points = sorted({point for found in CURRENT.values() for point in found})
    pairs = [(plugin, point) for plugin in IN_TREE for point in points]
    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = list(pool.map(lambda pair: accepts(*pair), pairs))
    assert [pair for pair, accepted in zip(pairs, answers, strict=True) if accepted] == [
        (plugin, point) for plugin, point in pairs if point in CURRENT[plugin]
    ]


def test_unsafe_settings_are_those_that_the_scheduler_accepts_in_a_check(
    ask_scheduler: Callable[[Json | str, str], Answer], files: dict[str, str]
) -> None:
    """They are refused by the module, because the scheduler would fail later or never call the extender."""
    unsafe: list[Json] = [
        {"leaderElection": {"renewDeadline": "2s", "retryPeriod": "2s"}},
        {"extenders": [{"urlPrefix": ""}]},
        {"extenders": [{"urlPrefix": "127.0.0.1:80"}]},
        {"extenders": [{"urlPrefix": "http://a", "httpTimeout": "-1s"}]},
        {"extenders": [{"urlPrefix": "http://a"}, {"urlPrefix": "http://a"}]},
    ]
    for number, fields in enumerate(unsafe):
        config = configuration(**fields, clientConnection=files_of(files))
        assert [problem.kind for problem in config_problems(config, TARGET)] == [UNSAFE], fields
        assert ask_scheduler(config, f"unsafe-{number}").accepted, fields


def test_the_fields_of_feature_gates_that_are_off_are_refused(
    ask_scheduler: Callable[[Json | str, str], Answer], files: dict[str, str]
) -> None:
    shape = [{"utilization": 0, "score": 0}]
    config = configuration(profiles=[profile(pluginConfig=arguments("VolumeBinding", shape=shape))], clientConnection=files_of(files))
    assert [problem.kind for problem in config_problems(config, TARGET)] == [NEEDS_GATE]
    assert "StorageCapacityScoring" in ask_scheduler(config, "gate").text


def files_of(files: dict[str, str]) -> Json:
    """Return the connection of a scheduler that does not connect."""
    return {"kubeconfig": files["kubeconfig"]}
