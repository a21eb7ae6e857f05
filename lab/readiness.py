# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One request to a health endpoint."""

from __future__ import annotations

import http.client


def is_healthy(connection: http.client.HTTPConnection, path: str) -> bool:
    """Send one GET request and close the connection. Return whether the answer is 200; False without an answer."""
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
