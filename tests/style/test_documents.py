# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The documents describe other files correctly."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model import messages
from packaging.requirements import Requirement
from packaging.version import Version

from lab.binaries import OLDER_KUBERNETES_VERSIONS
from tests.style.sources import FILES, internal_modules, libraries_of, report, tree
from tools.ansible_core import OLDEST
from tools.docs import site_url
from tools.paths import ROOT

MODULES = sorted(file for file in (ROOT / "plugins" / "modules").glob("*.py") if file.stem not in internal_modules())
OWN = "onprem.kube_scheduling."
DOCUMENTS = [file for file in FILES if file.suffix == ".md"]
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def lower_bounds(lines: list[str]) -> dict[str, Version]:
    found = {}
    for requirement in map(Requirement, lines):
        (bound,) = (specifier.version for specifier in requirement.specifier if specifier.operator == ">=")
        found[requirement.name] = Version(bound)
    return found


def documentation_of(module: Path) -> dict[str, Any]:
    """Return the documentation of a module, with the requirements of the fragments of this collection, as Ansible has it."""
    documentation = own_documentation_of(module)
    for name in documentation.get("extends_documentation_fragment", []):
        if name.startswith(OWN):
            fragment = own_documentation_of(ROOT / "plugins" / "doc_fragments" / f"{name.removeprefix(OWN)}.py")
            documentation["requirements"] = [*documentation.get("requirements", []), *fragment.get("requirements", [])]
    return documentation


def own_documentation_of(file: Path) -> dict[str, Any]:
    for statement in ast.walk(tree(file)):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "DOCUMENTATION":
            documentation: dict[str, Any] = yaml.safe_load(ast.literal_eval(statement.value))
            return documentation
    raise AssertionError(f"{file} has no DOCUMENTATION")


def test_a_module_requires_what_requirements_txt_installs() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    installed = lower_bounds([line for line in lines if line.strip() and not line.startswith("#")])
    needed = {name: installed[name] for name in libraries_of("plugins/module_utils")}
    for module in MODULES:
        documented = lower_bounds(documentation_of(module)["requirements"])
        del documented["python"]
        # Those on managed hosts without a cluster need only Python.
        assert documented == ({} if "module_utils.hosts." in module.read_text() else needed), module.name


def test_every_library_that_the_sources_import_is_in_requirements_txt() -> None:
    names, of_programs = (
        {Requirement(line).name for line in (ROOT / file).read_text().splitlines() if line.strip() and not line.startswith("#")}
        for file in ("requirements.txt", "services/extender/requirements.txt")
    )
    imported = libraries_of("plugins") | libraries_of("services")
    assert {"kubernetes", "prometheus_client", "PyYAML", "httptools"} <= imported <= names | of_programs
    assert libraries_of("plugins") | libraries_of("services/kubectl_spread") <= names


def test_the_modules_require_the_same_python() -> None:
    assert len({lower_bounds(documentation_of(module)["requirements"])["python"] for module in MODULES}) == 1


def test_there_are_modules_and_documents() -> None:
    assert MODULES and Path("README.md") in DOCUMENTS and any(file.parts[0] == "docs" for file in DOCUMENTS)


def test_relative_links_lead_somewhere() -> None:
    report(f"{document}: {link}" for document in DOCUMENTS for link in links_of(document) if not leads_somewhere(document, link))


@pytest.mark.parametrize(
    ("link", "good"),
    [
        ("docs/development/architecture.md", True),
        ("docs/development/architecture.md#folders", True),
        ("docs", True),
        ("#install", True),
        ("docs/nowhere.md", False),
        ("docs/development/architecture.md#nowhere", False),
        ("#nowhere", False),
        ("../elsewhere", False),
    ],
)
def test_a_broken_link_is_found(link: str, good: bool) -> None:
    assert leads_somewhere(Path("README.md"), link) == good


def links_of(document: Path) -> list[str]:
    # antsibull-changelog writes a backslash before each punctuation mark.
    return [link for link in LINK.findall((ROOT / document).read_text()) if not re.match(r"[a-z]+\\?:", link)]


def leads_somewhere(document: Path, link: str) -> bool:
    name, _hash, anchor = link.partition("#")
    target = (ROOT / document.parent / name).resolve() if name else ROOT / document
    if not target.exists() or ROOT.resolve() not in (target.resolve(), *target.resolve().parents):
        return False
    return not anchor or anchor in anchors_of(target)


@functools.cache
def anchors_of(document: Path) -> set[str]:
    return {anchor_of(heading) for heading in HEADING.findall(document.read_text())}


def anchor_of(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def guides_of(documentation: dict[str, Any]) -> list[str]:
    """The links into the site, relative to its root."""
    links = [entry["link"] for entry in documentation.get("seealso", []) if "link" in entry]
    return [link.removeprefix(f"{site_url()}/") for link in links if link.startswith(site_url())]


DOCUMENTATION = {module.stem: guides_of(documentation_of(module)) for module in MODULES} | {
    file.parent.parent.name: guides_of(yaml.safe_load(file.read_text())["argument_specs"]["main"])
    for file in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml"))
}


def test_the_documentation_of_a_module_or_role_links_a_guide_of_the_site() -> None:
    assert [name for name, links in DOCUMENTATION.items() if not links] == []
    all_links = ((name, link) for name, links in DOCUMENTATION.items() for link in links)
    report(f"{name}: {link}" for name, link in all_links if not leads_somewhere(Path("README.md"), link.replace(".html", ".md")))


def test_the_errors_about_a_missing_right_link_pages_of_the_site() -> None:
    links = {messages.role_documentation(f"any/{name}").split()[-1] for name in (*messages.ROLE_PAGES, "")}
    pages = {link.removeprefix(f"{site_url()}/") for link in links}
    assert pages == {*messages.ROLE_PAGES.values(), "docs/rebalance.html#permissions"}
    assert [page for page in pages if not leads_somewhere(Path("README.md"), page.replace(".html", ".md"))] == []


README = (ROOT / "README.md").read_text()


def names_in_table(head: str) -> set[str]:
    """The names in the first column of the table of README with this head."""
    table = README[README.index(f"| {head} | |\n") :].split("\n\n")[0]
    return set(re.findall(r"^\| `([a-z0-9_]+)` \|", table, re.MULTILINE))


def test_readme_lists_the_modules_playbooks_roles_and_services_that_exist() -> None:
    assert names_in_table("module") == {file.stem for file in MODULES}
    assert names_in_table("playbook") == {file.stem for file in (ROOT / "playbooks").glob("*.yml")}
    assert names_in_table("role") == {file.name for file in (ROOT / "roles").iterdir() if file.is_dir()}
    assert names_in_table("service") == {file.parent.name for file in (ROOT / "services").glob("*/__main__.py")}


def test_readme_names_every_filter() -> None:
    filters = {file.stem for file in (ROOT / "plugins" / "filter").glob("*.py")}
    assert {name for name in filters if f"`{name}`" not in README} == set()


def test_readme_names_the_versions_that_are_tested() -> None:
    (kubernetes,) = re.findall(r"^\s*k8s\.io/kubernetes v(\S+)", (ROOT / "lab" / "go.mod").read_text(), re.MULTILINE)
    pins = re.findall(r"^ansible-core==(\d+\.\d+)", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    rows = {row.split("|")[1].strip(): row for row in README.splitlines() if row.count("|") == 4}
    assert f" {kubernetes}:" in rows["Kubernetes"]
    assert all(f" {version}" in rows["Kubernetes"] for version in OLDER_KUBERNETES_VERSIONS)
    assert f" with {OLDEST}" in rows["ansible-core"]
    assert all(pin in rows["ansible-core"] for pin in pins) and len(pins) == 2
    assert yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["requires_ansible"] == ">=2.18.0"
    assert "| 2.18 or later |" in rows["ansible-core"]


def test_the_hooks_for_commits_are_calls_of_make_targets() -> None:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    targets = set(re.findall(r"^([a-z-]+):.*## check:", (ROOT / "Makefile").read_text(), re.MULTILINE))
    hooks = [hook for repository in settings["repos"] for hook in repository["hooks"]]
    assert {repository["repo"] for repository in settings["repos"]} == {"local"}
    assert [hook["entry"] for hook in hooks] == [f"make {hook['id']}" for hook in hooks] and {hook["id"] for hook in hooks} <= targets
