"""Reading token counts that services spell and count in different ways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..model import ModelUsage
from ._status import as_object

__all__ = ["consistent_usage", "count", "usage_from_mapping"]

_CACHE_READ = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")
_CACHE_WRITE = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details")


def count(value: Any) -> int:
    """Return a token count that may be an int, a float or a numeric text; anything else is 0.

    Example:
        >>> [count(value) for value in (5, 2.0, "7", True, None, -1)]
        [5, 2, 7, 0, 0, 0]
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return 0
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return 0
    return int(number) if math.isfinite(number) and number > 0 else 0


def usage_from_mapping(payload: Mapping[str, Any]) -> ModelUsage:
    """Read the usage object of a chat service, in any of the known spellings.

    Counters that contradict each other are made consistent: a bookkeeping error never loses an answer.

    Example:
        >>> usage = usage_from_mapping({"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4})
        >>> usage.input_tokens, usage.output_tokens, usage.cache_read_tokens
        (10, 2, 4)
    """
    places = (payload, *(as_object(payload.get(name)) for name in _INPUT_DETAILS))
    reads = [place[key] for place in places for key in _CACHE_READ if key in place]
    writes = [place[key] for place in places for key in _CACHE_WRITE if key in place]
    reasoning = next(
        (
            count(details["reasoning_tokens"])
            for name in _OUTPUT_DETAILS
            if "reasoning_tokens" in (details := as_object(payload.get(name)))
        ),
        0,
    )
    return consistent_usage(
        input_tokens=_first(payload, "prompt_tokens", "input_tokens"),
        output_tokens=_first(payload, "completion_tokens", "output_tokens"),
        cache_read_tokens=count(reads[-1]) if reads else 0,
        cache_write_tokens=count(writes[-1]) if writes else 0,
        cache_reported=bool(reads or writes),
        reasoning_tokens=reasoning,
        total_tokens=count(payload.get("total_tokens")),
    )


def consistent_usage(
    *,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    cache_reported: bool = True,
    reasoning_tokens: int = 0,
    total_tokens: int = 0,
) -> ModelUsage:
    """Build usage from counters of a service, counting reasoning as part of the output.

    Some services count it beside the output: the total then is the sum of all three, or reasoning is larger
    than the output.
    """
    beside = reasoning_tokens > output_tokens or (
        reasoning_tokens > 0 and total_tokens == input_tokens + output_tokens + reasoning_tokens
    )
    return ModelUsage.from_counts(
        input_tokens,
        output_tokens + reasoning_tokens if beside else output_tokens,
        cache_read_tokens,
        cache_write_tokens,
        cache_reported,
        reasoning_tokens,
    )


def _first(payload: Mapping[str, Any], *names: str) -> int:
    return next((count(payload[name]) for name in names if payload.get(name) is not None), 0)
