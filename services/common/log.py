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

    def debug(self, message: str, **fields: t.Any) -> None:
        """Log details that help to understand the program."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: t.Any) -> None:
        """Log an action."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: t.Any) -> None:
        """Log a problem that the program handles by a retry."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, *, cause: BaseException | None = None, **fields: t.Any) -> None:
        """Log a problem that ends the program or prevents its work. ``cause`` adds its traceback."""
        self._logger.error(message, extra={FIELDS: fields}, exc_info=cause)

    def _write(self, level: int, message: str, fields: dict[str, t.Any]) -> None:
        self._logger.log(level, message, extra={FIELDS: fields})


def set_up_log(name: str, *, form: str, level: str, stream: t.TextIO | None = None) -> Log:
    """Return the log of the program ``name``.

    ``form`` is json or text, ``level`` the lowest level of the program's lines, ``stream`` the output (by default standard error). Lines of
    its libraries are written from the level warning on, those of urllib3 from the level error on.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(TextFormatter(name) if form == "text" else JsonFormatter(name))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # The program itself logs broken connections.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logger = logging.getLogger(name)
    logger.setLevel(level.upper())
    return Log(logger)


class _Formatter(logging.Formatter):
    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program


class JsonFormatter(_Formatter):
    """One JSON object in each line: ``time`` (RFC 3339, UTC, milliseconds), ``level``, ``message``, followed by the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line = {"time": _time_of(record), "level": record.levelname.lower(), "message": record.getMessage()}
        for name, value in _fields_of(self, record).items():
            line[f"{name}_" if name in line else name] = value
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(_Formatter):
    """Time, level and message, followed by the fields as ``name=value``. A traceback follows on separate lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the traceback if there is one."""
        fields = _fields_of(self, record)
        trace = fields.pop("traceback", None)
        parts = [f"{_time_of(record)} {record.levelname:7} {record.getMessage()}", *(f"{name}={_word(fields[name])}" for name in fields)]
        return " ".join(parts) + (f"\n{trace}" if trace else "")


def _fields_of(formatter: _Formatter, record: logging.LogRecord) -> dict[str, t.Any]:
    fields = {name: value for name, value in getattr(record, FIELDS, {}).items() if value is not None}
    if record.name != formatter.program:
        fields["logger"] = record.name
    if record.exc_info:
        fields["traceback"] = formatter.formatException(record.exc_info)
    return fields


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _word(value: t.Any) -> str:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        value = ",".join(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return json.dumps(text, ensure_ascii=False) if not text or any(char.isspace() or char in '="' for char in text) else text
