# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The log of a program on standard error: one JSON object in each line, or readable text. A line has a message and fields."""

from __future__ import annotations

import json
import logging
import sys
import typing as t
from datetime import UTC, datetime

FIELDS = "fields"


class Log:
    """Log lines with fields. Fields with the value None are omitted."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def info(self, message: str, **fields: t.Any) -> None:
        """Log an action."""
        self._logger.info(message, extra={FIELDS: fields})

    def warning(self, message: str, **fields: t.Any) -> None:
        """Log a problem that the program handles by a retry."""
        self._logger.warning(message, extra={FIELDS: fields})

    def error(self, message: str, *, cause: BaseException | None = None, **fields: t.Any) -> None:
        """Log a problem that ends the program or prevents its work. ``cause`` adds its traceback."""
        self._logger.error(message, extra={FIELDS: fields}, exc_info=cause)


def set_up_log(name: str, *, form: str, level: str, stream: t.TextIO | None = None) -> Log:
    """Return the log of the program ``name``.

    ``form`` is json or text, ``level`` the lowest level of the program's lines, ``stream`` the output (by default standard error). Lines of
    its libraries are written from the level warning on, those of urllib3 from the level error on.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Formatter(name, is_text=form == "text"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # The program itself logs broken connections.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logger = logging.getLogger(name)
    logger.setLevel(level.upper())
    return Log(logger)


class Formatter(logging.Formatter):
    """Lines with ``time`` (RFC 3339, UTC, milliseconds), ``level``, ``message``, and the fields.

    A line is one JSON object. With ``is_text`` the fields are ``name=value``, and a traceback follows on separate lines.
    """

    def __init__(self, program: str, *, is_text: bool) -> None:
        super().__init__()
        self._program, self._is_text = program, is_text

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {name: value for name, value in getattr(record, FIELDS, {}).items() if value is not None}
        if record.name != self._program:
            fields["logger"] = record.name
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        if not self._is_text:
            line = {"time": time, "level": record.levelname.lower(), "message": record.getMessage()}
            own = {f"{name}_" if name in line else name: value for name, value in fields.items()}
            return json.dumps(line | own, default=str, ensure_ascii=False)
        trace = fields.pop("traceback", None)
        parts = [f"{time} {record.levelname:7} {record.getMessage()}", *(f"{name}={_word(value)}" for name, value in fields.items())]
        return " ".join(parts) + (f"\n{trace}" if trace else "")


def _word(value: t.Any) -> str:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        value = ",".join(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return json.dumps(text, ensure_ascii=False) if not text or any(char.isspace() or char in '="' for char in text) else text
