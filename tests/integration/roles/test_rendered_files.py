# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The roles write and remove only their own files in the folder of a user. No cluster is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.roles.host_cases import CasesRun, play_role
from tests.integration.roles.role_play import RolePlay

IMAGE = "registry.example.org/kube-scheduling/services:1"


def role(name: str, folder: Path, target: Path) -> RolePlay:
    return RolePlay(name, folder, {f"{name}_image": IMAGE, f"{name}_render_to": str(target)})


TAKEN = {"cronjob": "rebalancer-cronjob.yaml", "kustomization": "kustomization.yaml"}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[CasesRun, Path]:
    """A run in which the folder of each case has a file of the user, and the folder with them."""
    folder = tmp_path_factory.mktemp("taken")
    for case, taken in TAKEN.items():
        (folder / case).mkdir()
        (folder / case / taken).write_text("kind: CronJob # of the user\n")
    cases = {case: {"spread_cronjob_image": IMAGE, "spread_cronjob_render_to": str(folder / case)} for case in TAKEN}
    return play_role(RolePlay("spread_cronjob", folder), cases), folder


@pytest.mark.parametrize("case", TAKEN)
def test_a_file_of_the_user_is_not_replaced_and_nothing_is_written(case: str, refused: tuple[CasesRun, Path]) -> None:
    (run, folder), taken = refused, TAKEN[case]
    assert f"not rendered by this collection: {taken}. " in run.failure(case), run.output
    assert {file.name: file.read_text() for file in (folder / case).iterdir()} == {taken: "kind: CronJob # of the user\n"}


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
    assert changed.code == 0 and changed.changed == 1, changed.output
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
