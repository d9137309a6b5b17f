"""Optional behaviour for agents: one class for each extension, loaded when it is first named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_exports

if TYPE_CHECKING:
    from .base import AgentEventHooksMixin as AgentEventHooksMixin
    from .base import AgentExtension as AgentExtension
    from .base import AgentMaintenanceHooksMixin as AgentMaintenanceHooksMixin
    from .base import AgentModelHooksMixin as AgentModelHooksMixin
    from .base import AgentRunHooksMixin as AgentRunHooksMixin
    from .base import AgentSetupHooksMixin as AgentSetupHooksMixin
    from .base import AgentToolHooksMixin as AgentToolHooksMixin
    from .base import AgentTurnHooksMixin as AgentTurnHooksMixin
    from .base import MiddlewareHook as MiddlewareHook
    from .base import ModelRequestNext as ModelRequestNext
    from .base import ToolCallNext as ToolCallNext
    from .events import CompactionEvent as CompactionEvent
    from .events import ContentCompletedEvent as ContentCompletedEvent
    from .events import ContentStartedEvent as ContentStartedEvent
    from .events import ExtensionEvent as ExtensionEvent
    from .events import InternalMessageEvent as InternalMessageEvent
    from .events import MessageAppendedEvent as MessageAppendedEvent
    from .events import MessageTiming as MessageTiming
    from .events import PhaseTransitionEvent as PhaseTransitionEvent
    from .events import ReasoningCompletedEvent as ReasoningCompletedEvent
    from .events import ReasoningStartedEvent as ReasoningStartedEvent
    from .events import RunCancelledEvent as RunCancelledEvent
    from .events import SteeringMessageEvent as SteeringMessageEvent
    from .external import ExternalEvent as ExternalEvent
    from .external import ExternalEventExtension as ExternalEventExtension
    from .internal_message import INTERNAL_MESSAGE_EVENT_NAME as INTERNAL_MESSAGE_EVENT_NAME
    from .internal_message import InternalMessageExtension as InternalMessageExtension
    from .memory import InMemoryMessageAccumulator as InMemoryMessageAccumulator
    from .steering import STEERING_MESSAGE_EVENT_NAME as STEERING_MESSAGE_EVENT_NAME
    from .steering import SteeringExtension as SteeringExtension
    from .tool_guidelines import ToolGuidelinesExtension as ToolGuidelinesExtension

_MODULES = {
    "AgentEventHooksMixin": ".base",
    "AgentExtension": ".base",
    "AgentMaintenanceHooksMixin": ".base",
    "AgentModelHooksMixin": ".base",
    "AgentRunHooksMixin": ".base",
    "AgentSetupHooksMixin": ".base",
    "AgentToolHooksMixin": ".base",
    "AgentTurnHooksMixin": ".base",
    "MiddlewareHook": ".base",
    "ModelRequestNext": ".base",
    "ToolCallNext": ".base",
    "CompactionEvent": ".events",
    "ContentCompletedEvent": ".events",
    "ContentStartedEvent": ".events",
    "ExtensionEvent": ".events",
    "InternalMessageEvent": ".events",
    "MessageAppendedEvent": ".events",
    "MessageTiming": ".events",
    "PhaseTransitionEvent": ".events",
    "ReasoningCompletedEvent": ".events",
    "ReasoningStartedEvent": ".events",
    "RunCancelledEvent": ".events",
    "SteeringMessageEvent": ".events",
    "ExternalEvent": ".external",
    "ExternalEventExtension": ".external",
    "INTERNAL_MESSAGE_EVENT_NAME": ".internal_message",
    "InternalMessageExtension": ".internal_message",
    "InMemoryMessageAccumulator": ".memory",
    "STEERING_MESSAGE_EVENT_NAME": ".steering",
    "SteeringExtension": ".steering",
    "ToolGuidelinesExtension": ".tool_guidelines",
}

__getattr__, __dir__, __all__ = lazy_exports(__name__, _MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
