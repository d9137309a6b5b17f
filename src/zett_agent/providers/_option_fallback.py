"""Leaving out an optional field that a service, or a model of it, refuses.

Adapters add fields such as a reasoning effort by themselves. A model that does not know one answers 400 and
names it; the request is then sent again without, and later requests of that adapter leave it out at once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any

from ..model import ReasoningEffort
from .wire import read_object, read_str

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
# Fields whose name is an everyday word count as named only when the message quotes them.
_EVERYDAY = frozenset({"include", "think", "reasoning"})
_EFFORTS = [effort.value for effort in ReasoningEffort]
_QUOTED_WORD = re.compile(r"""['"`]([a-z]+)['"`]""")


class OptionMemory:
    """What the service of one adapter has refused so far, by model."""

    def __init__(self) -> None:
        # Field to the value to send instead, or to `None` for leaving it out.
        self._refused: dict[str, dict[str, str | None]] = {}

    def apply(self, model: str, body: dict[str, Any]) -> None:
        """Change in `body` what the model is known to refuse. Fields of the caller are not in it yet."""
        for field, replacement in self._refused.get(model, {}).items():
            if field not in body:
                continue
            if replacement is None or _rank(replacement) >= _rank(body[field]):
                del body[field]
            else:
                body[field] = replacement

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
        known = self._refused.setdefault(model, {})
        replacement = _lower_effort(field, body[field], text) if field not in known else None
        known[field] = replacement
        how = f"sends {replacement!r} instead" if replacement else "is left out"
        logger.warning("Model %s refuses %s; it %s from now on: %s", model, field, how, text[:200])
        return True


def _complaint(error: object) -> tuple[str, str]:
    if isinstance(error, str):
        return "", error
    details = read_object(error)
    return read_str(details.get("param")), read_str(details.get("message"))


def _named_field(param: str, text: str, candidates: list[str]) -> str | None:
    """Return the optional field that a service complains about."""
    if param:
        root = re.split(r"[.\[]", param, maxsplit=1)[0]
        return root if root in candidates else None
    for field in candidates:
        quoted = rf"['\"`]{field}(?:[.\[][^'\"`]*)?['\"`]"
        plain = rf"(?<![A-Za-z0-9_]){field}(?![A-Za-z0-9_])"
        if re.search(quoted if field in _EVERYDAY else plain, text):
            return field
    return None


def _lower_effort(field: str, sent: object, text: str) -> str | None:
    """Return the nearest lower effort that the message offers, if it is about the value of an effort."""
    if field != "reasoning_effort" or sent not in _EFFORTS:
        return None
    offered = [word for word in _QUOTED_WORD.findall(text) if word in _EFFORTS and _rank(word) < _rank(sent)]
    return max(offered, key=_rank, default=None)


def _rank(effort: object) -> int:
    return _EFFORTS.index(str(effort)) if str(effort) in _EFFORTS else len(_EFFORTS)
