# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of module_utils import each other in one direction, and so do the parts of each folder. One file imports ansible-core."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.style.arrows import COLLECTION, MODULE_UTILS, Rules, violations
from tests.style.sources import report
from tools.paths import ROOT

ANSIBLE_CONNECTION = "kube/client/ansible_connection.py"

ARROWS = {
    "model": set(),
    "scheduler": {"model", "scheduler_config"},
    "state": {"model"},
    "spread": {"model", "scheduler", "state"},
    "rescue": {"model", "scheduler", "state"},
    "kube": {"model"},
    "scheduler_config": {"model"},
    "second_scheduler": {"model", "scheduler_config"},
    "report": {"model", "state", "spread", "rescue"},
    "installation": {"model"},
    # What modules do on managed hosts without a cluster.
    "hosts": set(),
    # What modules and services share: read, decide, act.
    "operations": {"model", "scheduler", "scheduler_config", "state", "spread", "rescue", "kube"},
}

PURE_FOLDERS = {
    "model",
    "scheduler",
    "state",
    "spread",
    "rescue",
    "report",
    "scheduler_config",
    "second_scheduler",
    "installation",
}

IMPURE_MODULES = {
    "asyncio",
    "concurrent",
    "http",
    "kubernetes",
    "multiprocessing",
    "os",
    "pathlib",
    "requests",
    "shutil",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib.request",
    "urllib3",
}

THIRD_PARTY = {
    "ansible": {ANSIBLE_CONNECTION},
    "ansible_collections.kubernetes": {ANSIBLE_CONNECTION},
    "httptools": {"services/common/http/request_reader.py"},
    "kubernetes": {"kube/client/config/kubernetes_client.py"},
    "msgspec": {"model/codec.py"},
    "numpy": {
        f"services/extender/agents/{name}.py"
        for name in (
            *("arrays", *(f"original/{file}" for file in ("pigeon", "packing/objectives", "packing/placements"))),
            *("safe_balance", "safe_overload", "safe/beta", "safe/model", "safe/table"),
        )
    },
    "oauthlib": {"kube/client/config/kubernetes_client.py"},  # an error of the kubernetes client, which needs it
    # The kubernetes client raises errors of urllib3.
    "urllib3": {"kube/client/http/connection.py", "kube/client/config/kubernetes_client.py"},
    "uvloop": {"services/common/http/endpoints.py", "services/extender/http/server.py"},
    "yaml": {
        "kube/client/config/yaml_text.py",
        "services/common/document.py",
        "services/kubectl_spread/output.py",
    },
}

RULES = Rules(
    arrows={folder: frozenset(targets) for folder, targets in ARROWS.items()},
    pure_folders=frozenset(PURE_FOLDERS),
    impure_modules=frozenset(IMPURE_MODULES),
    # A lock around the calls of msgspec: threads of other folders decode at the same time.
    # The style and the script of the HTML page are files beside their source.
    excepted={"model/codec.py": "threading", "report/html_page.py": "pathlib.Path"},
    third_party={package: frozenset(files) for package, files in THIRD_PARTY.items()},
)


def test_every_import_follows_the_rules() -> None:
    report(violations(ROOT, RULES))


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("model/a.py", "from ..spread.check import check_spread", "model must not import spread (it may import: no other folder)"),
        ("scheduler/a.py", "from .. import kube", "scheduler must not import kube (it may import: model, scheduler_config)"),
        ("scheduler/filters/a.py", "from ...spread import check", "scheduler must not import spread"),
        ("spread/a.py", f"import {MODULE_UTILS}.rescue.plan", "spread must not import rescue"),
        ("kube/a.py", f"from {MODULE_UTILS}.state import lease", "kube must not import state"),
        ("scheduler_config/a.py", "from ..scheduler import profile", "scheduler_config must not import scheduler (it may import: model)"),
        ("kube/a.py", f"from {COLLECTION}.services import rescuer", "which imports it"),
        ("spread/a.py", "import socket", "spread only decides, and socket does I/O"),
        ("state/a.py", "def now():\n    import subprocess", "state only decides, and subprocess does I/O"),
        ("model/a.py", "from urllib.request import urlopen", "model only decides"),
        ("rescue/a.py", "from kubernetes import client", "rescue only decides"),
        ("model/a.py", "import threading", "model only decides"),
        ("operations/rescue/a.py", "from ...report import rows", "operations must not import report"),
        ("kube/deep/a.py", "from ...state.lease import acquired_spec", "kube must not import state"),
        ("model/a.py", "import msgspec", "only model/codec.py may import msgspec"),
        (
            "kube/a.py",
            "from urllib3.exceptions import HTTPError",
            "kube/client/http/connection.py may import urllib3",
        ),
        ("kube/a.py", "if TYPE_CHECKING:\n    import ansible.module_utils.basic", f"only {ANSIBLE_CONNECTION} may import ansible"),
        ("operations/a.py", "import ansible_collections.kubernetes.core", f"only {ANSIBLE_CONNECTION} may import"),
        ("operations/a.py", "import toml", "toml is a third-party package without a line in the table"),
        ("novelty/a.py", "import json", "the folder novelty has no line in the table"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    _write(tmp_path / "plugins" / "module_utils" / file, line)
    found = violations(tmp_path, RULES)
    assert len(found) == 1
    assert complaint in found[0]
    assert found[0].startswith(f"plugins/module_utils/{file}:")


def test_services_must_not_import_ansible(tmp_path: Path) -> None:
    _write(tmp_path / "services" / "rescuer" / "__main__.py", "from ansible.module_utils.basic import AnsibleModule")
    assert len(violations(tmp_path, RULES)) == 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("plugins/module_utils/spread/a.py", "from ..scheduler.filters import taint_toleration"),
        ("plugins/module_utils/scheduler/filters/a.py", "from ..node_info import NodeInfo"),
        ("plugins/module_utils/operations/rescue/a.py", "from ..restart.observation import Observation\nfrom ...rescue import plan"),
        ("plugins/module_utils/kube/client/resources.py", "from urllib.parse import quote"),
        ("plugins/module_utils/model/codec.py", "import msgspec"),
        (f"plugins/module_utils/{ANSIBLE_CONNECTION}", "from ansible.module_utils.basic import AnsibleModule"),
        ("services/rescuer/__main__.py", f"from {MODULE_UTILS}.operations.check import run"),
        ("services/common/http/request_reader.py", "import httptools"),
    ],
)
def test_an_allowed_import_is_not(tmp_path: Path, file: str, line: str) -> None:
    _write(tmp_path / file, line)
    assert violations(tmp_path, RULES) == []


@pytest.mark.parametrize(
    "imports",
    [
        {"spread/a/x.py": "from ..b.y import f, g", "spread/b/y.py": "from ..a.z import h"},
        {"kube/a/x.py": "from ..b import y", "kube/b/y.py": "def f():\n    from ..c.d import z", "kube/c/d/z.py": "from ...a import x"},
        {"kube/client/a/x.py": "from ..b.y import f", "kube/client/b/y.py": "from ..a.x import g"},
    ],
    ids=["two folders", "three folders", "two folders of a folder below"],
)
def test_a_circle_of_folders_is_found(tmp_path: Path, imports: dict[str, str]) -> None:
    for file, line in imports.items():
        _write(tmp_path / "plugins" / "module_utils" / file, line)
    assert [one.split(":")[0] for one in violations(tmp_path, RULES)] == [f"plugins/module_utils/{file}" for file in imports]


@pytest.mark.parametrize(
    "imports",
    [
        {"spread/a/x.py": "from ..check import f", "spread/check.py": "from .a.x import g"},
        {"spread/a/x.py": "from ..b import f", "spread/b.py": "from .c import g", "spread/c.py": "from .a.x import h"},
        {"spread/a.py": "from .b import f", "spread/b.py": "from . import a"},
    ],
    ids=["a file and a folder beside it", "two files and a folder", "two files"],
)
@pytest.mark.parametrize("source", ["plugins/module_utils", "services"])
def test_a_circle_of_files_and_folders_is_found(tmp_path: Path, source: str, imports: dict[str, str]) -> None:
    for file, line in imports.items():
        _write(tmp_path / source / file, line)
    assert [one.split(":")[0] for one in violations(tmp_path, RULES)] == sorted(f"{source}/{file}" for file in imports)


def test_imports_in_one_direction_are_no_circle(tmp_path: Path) -> None:
    imports = {"spread/a/x.py": "from ..b.y import f", "spread/b/y.py": "from ..base import g", "spread/check.py": "from .a.x import h"}
    for file, line in imports.items():
        _write(tmp_path / "plugins" / "module_utils" / file, line)
    assert violations(tmp_path, RULES) == []


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")
