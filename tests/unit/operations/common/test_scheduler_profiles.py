# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option scheduler_config: files that can be used, and clear errors for the others."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_config_source import check_scheduler_config
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILE
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.scheduler_profiles import (
    CONFIG_ANNOTATION,
    add_second_scheduler,
    read_scheduler_profiles,
)

from tests.unit.scheduler_config.strict_texts import REFUSED, TEXTS
from tests.unit.support.cluster import ClusterBuilder, struct
from tests.unit.support.fakes import FakeApi
from tests.unit.support.objects import NOW

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
QUIET = {**HEADER, "profiles": [{"schedulerName": "quiet", "plugins": {"filter": {"disabled": [{"name": "NodePorts"}]}}}]}


class NoApi(KubeApi):
    """An API that is not asked."""

    def __init__(self) -> None:
        pass


class SecondScheduler(FakeApi):
    """A cluster with the Deployment of extended_scheduler."""

    def __init__(self, annotation: str | None, *, forbidden: bool = False) -> None:
        self._annotation, self._forbidden = annotation, forbidden
        self.asked = 0
        super().__init__(ClusterBuilder(), now=NOW)

    def list_all(self, resource: Resource, *, namespace: str = "", label_selector: str = "", **how: Any) -> list[Any]:
        self.asked += 1
        assert (resource.plural, namespace) == ("deployments", "kube-system")
        assert how == {"field_selector": "metadata.name=kube-scheduling-scheduler"}
        if self._forbidden:
            raise ForbiddenError("no", status=403)
        annotations = {} if self._annotation is None else {CONFIG_ANNOTATION: self._annotation}
        return [struct(Workload, {"metadata": {"name": "kube-scheduling-scheduler", "annotations": annotations}})]


def written(folder: Path, content: Any) -> str:
    path = folder / "scheduler.yaml"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_profiles_of_a_file_are_added_to_the_default_one(tmp_path: Path) -> None:
    found = read_scheduler_profiles(NoApi(), [written(tmp_path, QUIET)])
    assert found["default-scheduler"] == DEFAULT_PROFILE
    assert not found["quiet"].filters_by("NodePorts")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a: [", "cannot be used: line 1, column 5: "),
        (
            {**HEADER, "profile": []},
            "profile: kube-scheduler refuses a field that it does not know; remove it, or correct its spelling; the nearest is profiles",
        ),
        (REFUSED["lost indentation"], "kubeconfig: kube-scheduler refuses a field that it does not know"),
        (REFUSED["a key twice"], "cannot be used: line 5, column 1: the key parallelism is there twice; correct it"),
        ("", "it is not a KubeSchedulerConfiguration"),
        ({**HEADER, "apiVersion": "v1"}, "apiVersion: 'v1' is not an API version"),
        ({**HEADER, "parallelism": 0}, "parallelism: 0 is not above 0"),
    ],
)
def test_file_that_cannot_be_used_is_an_error_with_its_path(tmp_path: Path, content: Any, text: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(OptionError) as caught:
        read_scheduler_profiles(NoApi(), [path])
    assert str(caught.value).startswith(f"scheduler_config: the file {path} ")
    assert text in str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_refused_if_kube_scheduler_refuses_it(tmp_path: Path, name: str) -> None:
    text, accepted = TEXTS[name]
    path = written(tmp_path, text)
    with contextlib.nullcontext() if accepted else pytest.raises(OptionError, match="cannot be used"):
        read_scheduler_profiles(NoApi(), [path])


def test_file_that_is_no_utf_8_is_an_error_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(OptionError, match=f"the file {path} cannot be used: it is not a text in UTF-8"):
        read_scheduler_profiles(NoApi(), [str(path)])


def test_missing_file_is_an_error_with_its_path_and_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"scheduler_config: there is no file {tmp_path} .*correct the path"):
        read_scheduler_profiles(NoApi(), [str(tmp_path)])


def test_profile_in_two_files_is_an_error(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps(QUIET))
    with pytest.raises(OptionError, match=r"other\.yaml has the profile quiet, and so has an earlier one"):
        read_scheduler_profiles(NoApi(), [written(tmp_path, QUIET), str(other)])


@pytest.mark.parametrize("text", ["configmap:scheduler", "configmap:a/b/c/d", "configmap:/a", "configmap:", "", " "])
def test_entry_that_names_neither_a_file_nor_a_config_map_is_an_error(text: str) -> None:
    with pytest.raises(OptionError, match=r"^scheduler_config: .*configmap:NAMESPACE/NAME/KEY"):
        check_scheduler_config({"scheduler_config": [text]})


def test_repeated_entries_count_once() -> None:
    assert check_scheduler_config({"scheduler_config": ["/a", "configmap:x/y", "/a"]}) == ("/a", "configmap:x/y")


def cluster(scheduler: str) -> ClusterBuilder:
    built = ClusterBuilder()
    built.node("a")
    built.deployment("web", ["a"], template={"spec": {"schedulerName": scheduler}})
    return built


def test_second_scheduler_is_read_if_a_pod_needs_it() -> None:
    snapshot = cluster("quiet").snapshot()
    add_second_scheduler(SecondScheduler(json.dumps(QUIET)), snapshot)
    assert set(snapshot.profiles) == {"default-scheduler", "quiet"}


def test_second_scheduler_is_not_read_if_all_profiles_are_known() -> None:
    api, snapshot = SecondScheduler(json.dumps(QUIET)), cluster("default-scheduler").snapshot()
    add_second_scheduler(api, snapshot)
    assert (api.asked, set(snapshot.profiles)) == (0, {"default-scheduler"})


UNREADABLE = [
    SecondScheduler(None),
    SecondScheduler("not: valid"),
    SecondScheduler("a: ["),
    SecondScheduler(json.dumps(QUIET), forbidden=True),
]


@pytest.mark.parametrize("api", UNREADABLE)
def test_profile_stays_unknown_if_the_second_scheduler_cannot_be_read(api: SecondScheduler) -> None:
    snapshot = cluster("quiet").snapshot()
    add_second_scheduler(api, snapshot)
    assert (api.asked, set(snapshot.profiles)) == (1, {"default-scheduler"})


def test_given_profiles_have_precedence_over_those_of_the_second_scheduler() -> None:
    snapshot = cluster("other").snapshot(profiles={"quiet": DEFAULT_PROFILE})
    add_second_scheduler(SecondScheduler(json.dumps(QUIET)), snapshot)
    assert snapshot.profiles["quiet"] is DEFAULT_PROFILE
