# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The error of the development scripts, which they print without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable


class ToolError(Exception):
    """Says what was wrong and what to do about it."""


def exit_with(main: Callable[[], int], name: str) -> None:
    """Run a script's main function, and end the process with its exit code."""
    try:
        code = main()
    except ToolError as error:
        print(f"{name}: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
