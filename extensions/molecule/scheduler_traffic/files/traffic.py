# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Send packets to the address in FILE, until FILE is removed. Another address in FILE moves the traffic. Usage: traffic.py FILE"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lab.traffic_sender import TrafficSender

BYTES_PER_S = 6e6


def main(file: Path) -> None:
    sender = TrafficSender()
    while file.exists():
        sender.set({file.read_text().strip(): BYTES_PER_S})
        time.sleep(0.2)
    sender.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
