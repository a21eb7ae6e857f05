# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Relative paths of files on the controller start in the folder in which Ansible was started.

Ansible runs modules in the folder of the playbook, which may be a folder of an installed collection.
"""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.secrets import is_content

NO_START = ("/", "~")
"""Paths that begin with these are not relative. Their reader replaces ``~``."""


def is_relative(path):
    """Return whether the path depends on a folder that it does not name."""
    return bool(path.strip()) and not path.startswith(NO_START)


def has_file(path):
    """Return whether there is a file or a folder with this path. A path that the system refuses has none."""
    try:
        return Path(path).expanduser().exists()
    except (OSError, RuntimeError):  # RuntimeError: the home folder is not known
        return False


def absolute_path(path, *other_folders):
    """Return the path in the start folder, or in another folder if only that has the file.

    Links are not resolved, because a kubeconfig names other files relative to its own folder.
    """
    if not is_relative(path):
        return path
    paths = [str(Path(folder, path)) for folder in (Path.cwd(), *other_folders)]
    return next(filter(has_file, paths), paths[0])


def found_path(path):
    """Return the absolute path if the start folder has the file. Otherwise the path is unchanged, and Ansible can search for it."""
    absolute = absolute_path(path)
    return absolute if has_file(absolute) else path


def each_path(kubeconfig, change):
    """Return the text with a change of each of its paths. A kubeconfig that is not a path is unchanged."""
    if not isinstance(kubeconfig, str) or is_content(kubeconfig):
        return kubeconfig
    return os.pathsep.join(map(change, kubeconfig.split(os.pathsep)))


def start_of(kubeconfig):
    """Return the sentence of an error that names the start folder. It is empty if no path is relative."""
    if not any(map(is_relative, kubeconfig.split(os.pathsep))):
        return ""
    return f" A relative path starts in {Path.cwd()}, where Ansible was started."
