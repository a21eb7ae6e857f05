# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The configuration with which Sphinx makes HTML from the reference that antsibull-docs writes (tools/docs.py calls both)."""

project = "onprem.kube_scheduling"
author = "onprem.kube_scheduling contributors"
extensions = ["sphinx_antsibull_ext"]
pygments_style = "ansible"
highlight_language = "YAML+Jinja"
html_show_sourcelink = False
html_copy_source = False
