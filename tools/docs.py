# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Builds the site in docs/build/html: the documents of the repository, and the reference of modules, plugins and roles.

The source of Sphinx is docs/build/source. The documents have the same paths there as in the repository, so their links to each other
are right in both.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tools import npm, site_links
from tools.errors import ToolError, exit_with
from tools.paths import NAME, NAMESPACE, ROOT
from tools.working_copy import repository_files

BUILD = ROOT / "docs" / "build"
SOURCE, HTML = BUILD / "source", BUILD / "html"
SETTINGS = ROOT / "tools" / "site"
NOT_ON_THE_SITE = ("extensions", "deploy", "CHANGELOG.md")
"""Folders and files of the repository whose documents are read in the repository."""
MERMAID = npm.Package("@mermaid-js/tiny", "12.0.0", "94f4bea4d69ae2766d6d29cd3321c9ed6be8c640852c57ef89d4f9999ada9783")
"""The program that draws the diagrams of the guides in the browser of the reader."""
LINK = re.compile(r"(?<=\]\()([^)\s]+)")
ENTRY = re.compile(r"^   (?:[^<\n]* <)?([A-Za-z][\w/.-]*)>?\n", re.MULTILINE)


def main() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    _write_pages()
    _write_reference()
    _build()
    _add_mermaid()
    print((HTML / "index.html").relative_to(ROOT))
    return 0


def site_url() -> str:
    """Return the address of the published site, without a slash at the end. The documentation of modules has links to its guides."""
    return str(_galaxy()["documentation"]).rstrip("/")


def pages() -> list[Path]:
    """Return the documents that are pages of the site, relative to the root of the repository."""
    documents = (file for file in repository_files() if file.suffix == ".md")
    return [file for file in documents if file.parts[0] not in NOT_ON_THE_SITE]


def with_site_links(text: str, page: Path, of_site: set[str]) -> str:
    """Return the text of a document in which links to other files of the repository lead to the repository's address.

    ``of_site``: the paths of the pages and pictures of the site. Links to them stay.
    """

    def address(link: re.Match[str]) -> str:
        name, hash_sign, anchor = link[1].partition("#")
        target = posixpath.normpath(posixpath.join(page.parent.as_posix(), name))
        if not name or re.match(r"[a-z]+:", name) or target in of_site:
            return link[1]
        if f"{target}/README.md" in of_site:
            return f"{name.rstrip('/')}/README.md{hash_sign}{anchor}"
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{_galaxy()['repository']}/{kind}/main/{target}{hash_sign}{anchor}"

    return LINK.sub(address, text)


def navigation(text: str, of_site: set[str]) -> str:
    """Return index.rst without the entries of pages that do not exist. Sphinx reports each page without an entry."""
    present = {name.removesuffix(".md") for name in of_site} | {"reference/index"}
    return ENTRY.sub(lambda entry: entry[0] if entry[1] in present else "", text)


def _galaxy() -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    return found


def _write_pages() -> None:
    pictures = [file for file in repository_files() if file.suffix == ".svg" and file.parts[0] == "docs"]
    of_site = {file.as_posix() for file in [*pages(), *pictures]}
    for page in pages():
        target = SOURCE / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_site_links((ROOT / page).read_text(), page, of_site))
    for picture in pictures:
        target = SOURCE / picture
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / picture, target)
    (SOURCE / "index.rst").write_text(navigation((SETTINGS / "index.rst").read_text(), of_site))


def _write_reference() -> None:
    folder = SOURCE / "reference"
    folder.mkdir()
    antsibull = ["antsibull-docs", "--config-file", str(SETTINGS / "antsibull.cfg"), "collection"]
    _run(*antsibull, "--use-current", "--squash-hierarchy", "--fail-on-error", "--dest-dir", str(folder), f"{NAMESPACE}.{NAME}")


def _add_mermaid() -> None:
    """Copy Mermaid into the site. Without npm the pages show the text of the diagrams."""
    try:
        script = npm.ensure(MERMAID, "mermaid") / "dist" / "mermaid.tiny.js"
    except ToolError as error:
        print(f"docs: the site shows the text of the diagrams, because Mermaid cannot be downloaded: {error}")
    else:
        shutil.copyfile(script, HTML / "_static" / script.name)


def _build() -> None:
    sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", str(SETTINGS)]
    folders = ["--doctree-dir", str(BUILD / "doctrees"), str(SOURCE), str(HTML)]
    _run(*sphinx, "--define", f"html_baseurl={site_url()}/", *folders)
    if problems := site_links.problems(HTML):
        raise ToolError("Links of the site without a target:\n" + "\n".join(problems))


def _run(*command: str) -> None:
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        raise ToolError(f"{command[0]} failed; its findings are listed above.")


if __name__ == "__main__":
    exit_with(main, "docs")
