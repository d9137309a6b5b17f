"""Leaving out an optional field that a service, or a model of it, refuses.

Adapters add fields such as a reasoning effort by themselves. A model that does not know one answers 400 and
names it; the request is then sent again without, and later requests of that adapter leave it out at once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any, cast

from ..model import ReasoningEffort
from .wire import read_object, read_objects, read_str

__all__ = ["MAX_FALLBACKS", "OptionMemory"]

logger = logging.getLogger("zett_agent.providers")

MAX_FALLBACKS = 2
"""How often one call is sent again for this reason."""

_OPTIONAL = (
    "reasoning_effort",
    "parallel_tool_calls",
    "prompt_cache_key",
    "stream_options",
    "output_config",
    "thinkingConfig",
    "reasoning",
    "thinking",
    "think",
    "include",
)
# Fields whose name is an everyday word count as named only when the message quotes them or says that they
# are not supported.
_EVERYDAY = frozenset({"include", "think", "thinking", "reasoning"})
_EFFORTS = [effort.value for effort in ReasoningEffort]
_WORD = re.compile(r"[a-z]+")


class OptionMemory:
    """What the service of one adapter has refused so far, by model."""

    def __init__(self) -> None:
        # Fields to leave out, and efforts to send instead of those that were refused.
        self._refused_fields: dict[str, set[str]] = {}
        self._lower_efforts: dict[str, dict[str, str]] = {}

    def apply(self, model: str, body: dict[str, Any]) -> None:
        """Change in `body` what the model is known to refuse. Fields of the caller are not in it yet."""
        for field in self._refused_fields.get(model, ()):
            body.pop(field, None)
        lower = self._lower_efforts.get(model)
        if lower:
            for field in _EFFORT_FIELDS:
                effort = _effort(body, field)
                if effort in lower:
                    _set_effort(body, field, lower[effort])

    def learn(
        self,
        model: str,
        status: int,
        error: object,
        *,
        body: Mapping[str, Any],
        caller_fields: Collection[str],
    ) -> bool:
        """Take in a refused request; return whether it is worth sending again.

        Args:
            model: The model.
            status: HTTP status of the answer.
            error: The parsed `error` object, or the text of the answer.
            body: What was sent.
            caller_fields: Fields that the caller set; they are never changed.
        """
        if status not in (400, 422):
            return False
        param, text = _complaint(error)
        field = _named_field(param, text, [name for name in _OPTIONAL if name in body])
        if field is None or field in caller_fields:
            return False
        sent = _effort(body, field)
        offered = _lower_effort(sent, text)
        # The text itself is not logged: it may quote the conversation.
        lower = self._lower_efforts.setdefault(model, {})
        if sent is not None and offered is not None and sent not in lower.values():
            lower[sent] = offered
            logger.warning(
                "Model %s refuses the effort %s; %s is sent instead from now on", model, sent, offered
            )
        else:
            self._refused_fields.setdefault(model, set()).add(field)
            logger.warning("Model %s refuses the field %s; it is left out from now on", model, field)
        return True


_EFFORT_FIELDS = ("reasoning_effort", "reasoning")


def _effort(body: Mapping[str, Any], field: str) -> str | None:
    """Return the effort in a field: the field itself, or the entry of a reasoning object."""
    if field not in _EFFORT_FIELDS:
        return None
    value = body.get(field)
    effort = value if isinstance(value, str) else read_object(value).get("effort")
    return effort if isinstance(effort, str) and effort in _EFFORTS else None


def _set_effort(body: dict[str, Any], field: str, effort: str) -> None:
    value = body[field]
    body[field] = effort if isinstance(value, str) else {**value, "effort": effort}


def _complaint(error: object) -> tuple[str, str]:
    if isinstance(error, str):
        return "", error
    details = read_object(error)
    for entry in read_objects(details.get("detail")):  # as FastAPI reports what it cannot accept
        location = cast("list[Any]", entry["loc"]) if isinstance(entry.get("loc"), list) else []
        field = next((read_str(name) for name in location if name != "body"), "")
        if field:
            return field, read_str(entry.get("msg"))
    return read_str(details.get("param")), read_str(details.get("message")) or read_str(details.get("detail"))


def _named_field(param: str, text: str, candidates: list[str]) -> str | None:
    """Return the optional field that a service complains about."""
    if param:
        root = re.split(r"[.\[]", param, maxsplit=1)[0]
        return root if root in candidates else None
    for field in candidates:
        quoted = rf"['\"`]{field}(?:[.\[][^'\"`]*)?['\"`]"
        word = rf"(?<![A-Za-z0-9_]){field}(?![A-Za-z0-9_])"
        unsupported = rf"(?:support(?:s|ed)?|parameter|field|option|argument)s?:?\s+{word}"
        if re.search(f"{quoted}|{unsupported}" if field in _EVERYDAY else word, text):
            return field
    return None


def _lower_effort(sent: str | None, text: str) -> str | None:
    """Return the nearest lower effort that a message offers instead of `sent`."""
    if sent is None:
        return None
    below = _EFFORTS[: _EFFORTS.index(sent)]
    offered = [word for word in _WORD.findall(text) if word in below]
    return max(offered, key=_EFFORTS.index, default=None)
