# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The configuration with which Sphinx makes the site from docs/build/source (tools/docs.py writes that folder)."""

from __future__ import annotations

import html
import posixpath
from collections.abc import Callable
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

project = "onprem.kube_scheduling"
author = copyright = "onprem.kube_scheduling contributors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("diagrams.js", {"defer": "defer"})]
html_show_sourcelink = False
html_copy_source = False
highlight_language = "none"
# Headings of documents get the anchors that a forge gives them, so that a link with an anchor is right in both.
myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]


class Mermaid(SphinxDirective):
    """A diagram that static/diagrams.js draws. Without that script the page shows its text."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        text = html.escape("\n".join(self.content))
        return [nodes.raw("", f'<pre class="mermaid">{text}</pre>', format="html")]


class NoContents(SphinxDirective):
    """The list of the sections of a page, which antsibull-docs writes. The theme has it beside each page."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Callable[[str], str]]] = {"local": directives.unchanged, "depth": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        return []


def make_site_links_relative(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """The documentation of modules names guides by the address of the published site. A copy of the site must lead to its own pages."""
    base = app.config.html_baseurl
    for link in doctree.findall(nodes.reference):
        address = link.get("refuri", "")
        if base and address.startswith(base):
            link["refuri"] = posixpath.relpath(address.removeprefix(base), posixpath.dirname(page) or ".")


def text_of_ansible(_app: Sphinx, _env: BuildEnvironment, node: pending_xref, text: nodes.TextElement) -> nodes.TextElement | None:
    """Return the text of a reference into the documentation of ansible-core or of another collection, which is not at hand."""
    return text if node["refdoc"].startswith("reference/") and "onprem" not in node["reftarget"] else None


def setup(app: Sphinx) -> None:
    app.add_directive("mermaid", Mermaid)
    app.add_directive("contents", NoContents, override=True)
    app.connect("doctree-resolved", make_site_links_relative)
    app.connect("missing-reference", text_of_ansible)
