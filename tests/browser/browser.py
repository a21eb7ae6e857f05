# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium, driven by the Chrome DevTools Protocol."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

from tools import chromium

Json = dict[str, Any]

START_WITHIN_S = 60.0
ANSWER_WITHIN_S = 30.0
FLAGS = ("--headless", "--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-pings")
# What the browser does in the background would only ask servers that do not exist here.
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions")


class Page:
    """One tab. ``problems``: the errors and warnings of the console, of scripts and of the network, and dialogs."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=ANSWER_WITHIN_S, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        self.loads = 0
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Load an address, and wait until the page is complete."""
        before = self.loads
        answer = self._call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.wait_load(before)

    def wait_load(self, before: int, *, timeout_s: float = ANSWER_WITHIN_S) -> None:
        """Wait until pages were complete more often than ``before``, such as by a refresh of the page itself."""
        deadline_s = time.monotonic() + timeout_s
        while self.loads <= before:
            assert time.monotonic() < deadline_s, f"no page was complete within {timeout_s} s"
            self._receive()

    def set_screen(self, width: int, height: int, *, dark: bool) -> None:
        """Set the size of the screen in pixels, and the theme that the reader prefers."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[theme])

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def promised(self, expression: str) -> Any:
        """Return the value of the promise that a JavaScript expression makes."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def table(self, number: int = 0) -> list[list[str]]:
        """Return the texts of the cells of a table's body, as people see them."""
        rows = f"[...document.querySelectorAll('table')[{number}].tBodies[0].rows]"
        found: list[list[str]] = self.value(f"{rows}.map(row => [...row.cells].map(cell => cell.innerText))")
        return found

    def text(self) -> str:
        """Return the text of the page, as people see it."""
        found: str = self.value("document.body.innerText")
        return found

    def set_scripts(self, *, allowed: bool) -> None:
        """Allow scripts in pages, or forbid them."""
        self._call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def emulate(self, *, dark: bool = False, printing: bool = False, width: int = 1280, height: int = 900) -> None:
        """Show pages in a colour scheme, for a medium, and in a window of this size."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="print" if printing else "screen", features=[scheme])
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def press(self, key: str, *, text: str = "", shift: bool = False) -> None:
        """Press a key as a person does. ``text`` is the sign that it types."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowUp": 38}.get(key, ord(key[0].upper()))
        parameters = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        sign = {"Enter": "\r", " ": " "}.get(key, text)
        self._call("Input.dispatchKeyEvent", type="keyDown", **parameters, **({"text": sign} if sign else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def paste(self) -> None:
        """Paste the clipboard into the element with the focus."""
        key = {"key": "v", "code": "KeyV", "windowsVirtualKeyCode": 86, "modifiers": 2}
        self._call("Input.dispatchKeyEvent", type="rawKeyDown", commands=["paste"], **key)
        self._call("Input.dispatchKeyEvent", type="keyUp", **key)

    def set_permission(self, name: str, setting: str) -> None:
        """Grant or deny a permission to all pages. ``setting`` is ``granted`` or ``denied``."""
        self._call("Browser.setPermission", permission={"name": name, "allowWithoutSanitization": False}, setting=setting)

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """Write a picture of the window, or with ``whole`` of the page up to a height of 4,000 pixels."""
        parameters: Json = {"format": "png"}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            parameters |= {"captureBeyondViewport": True}
            parameters["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", **parameters)["data"]))

    def pdf(self, file: Path) -> None:
        """Write the page as the printer gets it."""
        data = self._call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._socket.close()

    def _call(self, method: str, **parameters: Any) -> Json:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message)
                result: Json = message["result"]
                return result

    def _receive(self) -> Json:
        message: Json = json.loads(self._socket.recv())
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning")):
            self.problems.append(json.dumps(parameters))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method in ("Page.javascriptDialogOpening", "Network.loadingFailed"):
            self.problems.append(f"{method}: {parameters}")
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Run a browser with one tab. ``folder`` gets its profile and its log."""
    program = chromium.ensure()
    profile = folder / "profile"
    command = [str(program / "chromium"), *FLAGS, *QUIET, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, env=chromium.environment(program), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            page = Page(_tab(_port(profile, process, folder / "chromium.log")))
            yield page
            page.close()
        finally:
            process.kill()
            process.wait()


def _port(profile: Path, process: subprocess.Popen[bytes], log: Path) -> int:
    """Return the port of the protocol, which the browser writes into its profile."""
    file = profile / "DevToolsActivePort"
    deadline_s = time.monotonic() + START_WITHIN_S
    while not (file.exists() and "\n" in file.read_text()):
        assert process.poll() is None and time.monotonic() < deadline_s, f"chromium did not start:\n{log.read_text()[-2000:]}"
        time.sleep(0.05)
    return int(file.read_text().splitlines()[0])


def _tab(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_WITHIN_S)
    connection.request("GET", "/json/list")
    tabs = json.loads(connection.getresponse().read())
    connection.close()
    return str(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
