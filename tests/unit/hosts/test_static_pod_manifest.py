# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The manifest of a static pod has a hash of all that its programs read, and keeps earlier containers while they are needed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.static_pod import ANNOTATION, MARK, marked, with_earlier

FILES = {"kubeconfig": "a", "config.yml": "b"}


def pod(*numbers: int, **container: Any) -> dict[str, Any]:
    containers = [{"name": f"extender-{n}", "ports": [{"containerPort": 9250 + n}], **container} for n in numbers]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "é"}, "spec": {"containers": containers}}


def test_each_container_and_the_annotation_have_the_hash() -> None:
    text, value = marked(pod(1, 2, env=[{"name": "KUBECONFIG", "value": "/x"}]), FILES)
    found = yaml.safe_load(text)
    assert found["metadata"] == {"name": "é", "annotations": {ANNOTATION: value}}
    expected = [{"name": "KUBECONFIG", "value": "/x"}, {"name": MARK, "value": value}]
    assert [container["env"] for container in found["spec"]["containers"]] == [expected] * 2


@pytest.mark.parametrize(
    ("changed", "files"),
    [(pod(1, image="y"), FILES), (pod(2), FILES), (pod(1), {**FILES, "kubeconfig": "c"}), (pod(1), {"kubeconfig": "a"})],
)
def test_a_change_of_the_pod_or_of_a_file_changes_the_hash(changed: dict[str, Any], files: dict[str, str]) -> None:
    assert marked(pod(1), FILES)[1] != marked(changed, files)[1]
    assert marked(pod(1), FILES) == marked(pod(1), dict(reversed(FILES.items())))


def test_earlier_containers_stay_until_a_manifest_without_them() -> None:
    in_use, _value = marked(pod(1, 2, 3), FILES)
    united, value = marked(with_earlier(pod(1, image="y"), in_use), FILES)
    containers = yaml.safe_load(united)["spec"]["containers"]
    assert [(one["name"], one.get("image"), one["env"][0]["value"]) for one in containers] == [
        ("extender-1", "y", value),
        ("extender-2", None, value),
        ("extender-3", None, value),
    ]
    # A second run changes nothing.
    assert marked(with_earlier(pod(1, image="y"), united), FILES) == (united, value)
    assert with_earlier(pod(1), marked(pod(1), FILES)[0]) == pod(1)


@pytest.mark.parametrize("text", ["", "apiVersion: v1\nkind: Pod\n", "[]", "{"])
def test_a_manifest_of_another_form_has_no_containers(text: str) -> None:
    assert with_earlier(pod(1), text) == pod(1)
