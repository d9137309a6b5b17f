"""Reading the answer of the Chat Completions wire. Pure: JSON objects in, model events out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..messages import AssistantMessage
from ..model import ModelEvent, ModelResponse, ModelUsage
from ..stop import StopInfo, StopReason, classify_stop
from ._chat_tool_calls import ChatToolCalls
from ._failures_in_stream import stream_failure
from ._service_text import service_text
from ._surrogates import SurrogateJoiner
from .stop_reasons import withhold_replay_blocks
from .wire import JsonObject, read_object, read_objects, read_str

if TYPE_CHECKING:
    from .openai_compatible import OpenAICompatibleProvider

__all__ = ["ChatDecoder", "ChatDelta", "content_parts", "default_chat_stop", "tool_call_deltas"]

logger = logging.getLogger("zett_agent.providers")

_TRUNCATED = "The service ended the stream without a finish reason; the answer may be incomplete."
_WITHHELD = frozenset({StopReason.REFUSAL, StopReason.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """What one chunk adds to the answer.

    Attributes:
        text: Visible text.
        reasoning: Readable reasoning.
        refusal: Text with which the model declines; shown as text.
        tool_calls: Fragments of tool calls as the service sent them.
        replay: Fragments of opaque blocks for `merge_replay`.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[JsonObject, ...] = ()
    replay: tuple[JsonObject, ...] = ()


def tool_call_deltas(value: object) -> tuple[JsonObject, ...]:
    """Return the fragments in a chunk's `tool_calls`, whatever else stands there."""
    return tuple(read_objects(value))


def content_parts(content: object) -> tuple[str, str]:
    """Return text and reasoning of a `content` that is a string, a list of typed parts, or anything else."""
    if isinstance(content, str):
        return content, ""
    text: list[str] = []
    reasoning: list[str] = []
    for part in read_objects(content):
        if part.get("type") == "thinking":
            thinking = part.get("thinking")
            inner = thinking if isinstance(thinking, str) else content_parts(thinking)[0]
            reasoning.append(inner)
        else:
            text.append(read_str(part.get("text")))
    return "".join(text), "".join(reasoning)


def default_chat_stop(
    finish_reason: str | None,
    *,
    has_tool_calls: bool,
    refusal_text: str = "",
    stream_error: JsonObject | None = None,
    native_finish_reason: str | None = None,
) -> StopInfo:
    """Return the stop of a chat answer.

    Args:
        finish_reason: The service's value.
        has_tool_calls: Whether the answer asks for tools.
        refusal_text: What the model said in declining; makes a normal stop a refusal.
        stream_error: Error that the service reported inside the stream.
        native_finish_reason: The value of the service behind a gateway.
    """
    detail: dict[str, Any] = {}
    message: str | None = None
    raw = finish_reason
    if stream_error is not None:
        fields = {name: stream_error[name] for name in ("code", "message", "type") if name in stream_error}
        detail["error"] = fields
        message = read_str(stream_error.get("message")) or None
        raw = finish_reason or "error"
    if native_finish_reason and native_finish_reason != finish_reason:
        detail["native_finish_reason"] = native_finish_reason
    stop = classify_stop(raw, has_tool_calls=has_tool_calls, message=message, detail=detail)
    if refusal_text and stop.ok:
        return StopInfo(StopReason.REFUSAL, raw, "refusal", refusal_text, detail=detail)
    return stop


class ChatDecoder:
    """Reads one answer.

    Attributes:
        finished: Whether reading should stop, because the service reported a failure.
    """

    def __init__(self, provider: OpenAICompatibleProvider) -> None:
        self._provider = provider
        self._other_keys = _keys_beside_text(provider)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._joiners: dict[str, SurrogateJoiner] = {}
        self._calls = ChatToolCalls()
        self._replay: list[JsonObject] = []
        self._usage: JsonObject | None = None
        self._finish_reason: str | None = None
        self._native_finish_reason: str | None = None
        self._stream_error: JsonObject | None = None
        self._emitted = False
        self.finished = False

    def feed(self, chunk: JsonObject) -> list[ModelEvent]:
        """Take one chunk and return its events.

        Raises:
            ProviderError: The service reports a failure before anything was said.
        """
        if self.finished:
            return []
        choices = chunk.get("choices")
        choice: Any = choices[0] if isinstance(choices, list) and choices else None  # pyright: ignore[reportUnknownVariableType]
        usage = chunk.get("usage")
        if usage:
            self._usage = read_object(usage) or self._usage
        error = chunk.get("error")
        if error:
            return self._fail(error)
        if not isinstance(choice, dict):
            return []
        return self._feed_choice(cast(JsonObject, choice), usage)

    def _feed_choice(self, choice: JsonObject, usage: object) -> list[ModelEvent]:
        delta = choice.get("delta")
        events: list[ModelEvent] = []
        if isinstance(delta, dict) and delta:
            entries = cast(JsonObject, delta)
            text = entries.get("content")
            if text.__class__ is str and not any(map(entries.get, self._other_keys)):
                # Nearly all chunks of nearly all services: nothing but text, and perhaps empty fields.
                self._show(ModelEvent.text, self._text, "text", cast(str, text), events)
            else:
                self._feed_delta(self._provider.read_delta(entries), events)
        finish_reason = choice.get("finish_reason")
        if finish_reason:
            self._finish_reason = service_text(read_str(finish_reason)) or self._finish_reason
        native = choice.get("native_finish_reason")
        if native:
            self._native_finish_reason = service_text(read_str(native)) or self._native_finish_reason
        if not usage and choice.get("usage"):
            self._usage = read_object(choice["usage"]) or self._usage
        if events:
            self._emitted = True
        return events

    def _feed_delta(self, delta: ChatDelta, events: list[ModelEvent]) -> None:
        if delta.refusal:
            self._refusal.append(delta.refusal)
            self._show(ModelEvent.text, self._text, "refusal", delta.refusal, events)
        if delta.text:
            self._show(ModelEvent.text, self._text, "text", delta.text, events)
        if delta.reasoning:
            self._show(ModelEvent.reasoning, self._reasoning, "reasoning", delta.reasoning, events)
        for fragment in delta.tool_calls:
            events.extend(ModelEvent.tool_call(shown) for shown in self._calls.feed(fragment))
        for fragment in delta.replay:
            self._provider.merge_replay(self._replay, fragment)

    def _show(
        self,
        event: Callable[[str], ModelEvent],
        parts: list[str],
        kind: str,
        text: str,
        events: list[ModelEvent],
    ) -> None:
        """Show a piece of text, with characters that were cut in the middle put together."""
        if not text.isascii() or kind in self._joiners:
            joiner = self._joiners.get(kind)
            if joiner is None:
                joiner = self._joiners[kind] = SurrogateJoiner()
            text = joiner.feed(text)
        if text:
            parts.append(text)
            events.append(event(text))

    def _fail(self, error: object) -> list[ModelEvent]:
        """Take a failure that the service reports inside its stream."""
        details = read_object(error) or {"message": error if isinstance(error, str) else str(error)}
        if not self._emitted:
            raise stream_failure(self._provider.provider_name, details)
        self._stream_error = self._provider._redacted(details)
        self.finished = True
        return []

    def finish(self, *, done: bool) -> list[ModelEvent]:
        """Return the last events: what was held back, and the response.

        Args:
            done: Whether the service sent its end mark.
        """
        events = [ModelEvent.tool_call(shown) for shown in self._calls.end()]
        self._flush("refusal", ModelEvent.text, self._text, events)
        self._flush("text", ModelEvent.text, self._text, events)
        self._flush("reasoning", ModelEvent.reasoning, self._reasoning, events)
        calls = self._calls.finish(self._finish_reason)
        stop = self._stop(bool(calls), done)
        replay: tuple[Any, ...] = tuple(self._replay)
        if stop.reason in _WITHHELD:
            replay = withhold_replay_blocks(replay, lambda block: block.get("type") == "tool_call")
        message = AssistantMessage(
            content="".join(self._text),
            reasoning="".join(self._reasoning) or None,
            tool_calls=calls,
            provider=self._provider.provider_name,
            model=self._provider.model,
            replay_blocks=replay,
        )
        response = ModelResponse(message, self._finish_reason, self._read_usage(), stop)
        return [*events, ModelEvent.completed(response)]

    def _flush(
        self, kind: str, event: Callable[[str], ModelEvent], parts: list[str], events: list[ModelEvent]
    ) -> None:
        joiner = self._joiners.get(kind)
        rest = joiner.flush() if joiner is not None else ""
        if rest:
            parts.append(rest)
            events.append(event(rest))

    def _stop(self, has_calls: bool, done: bool) -> StopInfo:
        provider = self._provider
        stop = provider.chat_stop(
            self._finish_reason,
            has_tool_calls=has_calls,
            refusal_text="".join(self._refusal),
            stream_error=self._stream_error,
            native_finish_reason=self._native_finish_reason,
        )
        ended = done or self._finish_reason is not None or self._stream_error is not None
        if ended or not provider.requires_terminator:
            return stop
        return StopInfo(StopReason.INTERRUPTED, None, "truncated", _TRUNCATED, detail=stop.detail)

    def _read_usage(self) -> ModelUsage:
        if self._usage is None:
            return ModelUsage()
        try:
            return self._provider.read_usage(self._usage)
        except Exception as error:
            # The answer is paid for and complete: it must not be lost over its bookkeeping.
            logger.warning("%s: the usage counters cannot be read: %r", self._provider.provider_name, error)
            return ModelUsage()


def _keys_beside_text(provider: OpenAICompatibleProvider) -> tuple[str, ...]:
    """Return the fields of a delta that count beside its text.

    An adapter with a `read_delta` of its own reads every delta: whatever stands in one counts.
    """
    from .openai_compatible import OpenAICompatibleProvider

    own = getattr(provider.read_delta, "__func__", provider.read_delta)
    if own is not OpenAICompatibleProvider.read_delta:
        return ("content",)
    return ("tool_calls", "refusal", "function_call", *provider.reasoning_keys)
