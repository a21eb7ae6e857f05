# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The roles write and remove only their own files in the folder of a user. No cluster is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.roles.role_play import RolePlay

IMAGE = "registry.example.org/kube-scheduling/services:1"


def role(name: str, folder: Path, target: Path) -> RolePlay:
    return RolePlay(name, folder, {f"{name}_image": IMAGE, f"{name}_render_to": str(target)})


@pytest.mark.parametrize("taken", ["rebalancer-cronjob.yaml", "kustomization.yaml"])
def test_a_file_of_the_user_is_not_replaced_and_nothing_is_written(taken: str, tmp_path: Path) -> None:
    target = tmp_path / "base"
    target.mkdir()
    (target / taken).write_text("kind: CronJob # of the user\n")
    refused = role("spread_cronjob", tmp_path, target).run()
    assert refused.code == 2 and f"has files that were not rendered by this collection: {taken}. Move or rename" in refused.output
    assert {file.name: file.read_text() for file in target.iterdir()} == {taken: "kind: CronJob # of the user\n"}


@pytest.mark.full
def test_files_of_another_form_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    target = tmp_path / "base"
    spread, rescuer = role("spread_cronjob", tmp_path, target), role("critical_rescuer", tmp_path, target)
    assert spread.run().code == 0
    before = {file.name for file in target.iterdir()}
    # The name of a file of the other form, which the user has written, and one that quotes the mark in a later line.
    (target / "rebalancer-deployment-patch.yaml").write_text("kind: Deployment\n")
    (target / "rebalancer-notes.yaml").write_text(f"# user\n{(target / 'namespace.yaml').read_text()}")
    changed = spread.run(spread_cronjob_form="deployment")
    assert changed.code == 0 and changed.changed == 3, changed.output
    users = {"rebalancer-deployment-patch.yaml", "rebalancer-notes.yaml"}
    assert before ^ {file.name for file in target.iterdir()} == {"rebalancer-cronjob.yaml", "rebalancer-deployment.yaml", *users}

    assert rescuer.run().code == 0 and (target / "rescuer-deployment.yaml").exists()
    static = rescuer.run(critical_rescuer_form="static_pod")
    assert static.code == 0, static.output
    assert [file.name for file in target.glob("rescuer*")] == ["rescuer-static-permissions.yaml"]
    listed = (target / "kustomization.yaml").read_text()
    assert "rescuer-deployment.yaml" not in listed and "rescuer-static-permissions.yaml" in listed and "notes" not in listed
    again = rescuer.run()
    assert (
        again.code == 0 and not (target / "rescuer-static-permissions.yaml").exists() and (target / "rebalancer-deployment.yaml").exists()
    )
