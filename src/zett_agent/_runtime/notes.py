"""Telling about errors that come on top of the one that is raised."""

from __future__ import annotations

import logging

__all__ = ["add_note", "note_errors"]

logger = logging.getLogger("zett_agent")


def add_note(error: BaseException, note: str) -> None:
    """Attach a note to an exception; `BaseException.add_note` for Python 3.10 as well."""
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        notes = []
        try:
            error.__notes__ = notes  # pyright: ignore[reportAttributeAccessIssue]
        except AttributeError:
            return  # a frozen exception: it is raised as it is, and the log has the rest
    notes.append(note)  # pyright: ignore[reportUnknownMemberType]


def note_errors(error: BaseException | None, what: str, errors: list[BaseException]) -> None:
    """Log errors met while a request ended, and note them on the exception that the caller receives."""
    for extra in errors:
        logger.error("%s failed: %r", what, extra, exc_info=extra)
        if error is not None and extra is not error:
            add_note(error, f"{what} failed: {extra!r}")
