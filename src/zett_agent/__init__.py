"""A small model/tool loop for building agents: typed tools, streaming, hooks and any provider.

Importing the package loads nothing else. Each name below is imported from its module on first use, so
`from zett_agent import Agent` and `from zett_agent.agent import Agent` give the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .agent import AgentRunConfig as AgentRunConfig
    from .agent import AgentRunContext as AgentRunContext
    from .agent import AgentState as AgentState
    from .client import AgentClient as AgentClient
    from .client import create_agent as create_agent
    from .dispatcher import AgentEventDispatcher as AgentEventDispatcher
    from .event_queue import AgentEventQueue as AgentEventQueue
    from .events import AgentEvent as AgentEvent
    from .events import AgentEventType as AgentEventType
    from .events import AgentPhase as AgentPhase
    from .events import AgentPhaseTransitionMixin as AgentPhaseTransitionMixin
    from .events import ModelOutputTracker as ModelOutputTracker
    from .exceptions import AgentError as AgentError
    from .exceptions import AgentIterationLimitError as AgentIterationLimitError
    from .exceptions import AgentProtocolError as AgentProtocolError
    from .exceptions import AgentResumeError as AgentResumeError
    from .exceptions import AgentStopError as AgentStopError
    from .extensions.base import AgentEventHooksMixin as AgentEventHooksMixin
    from .extensions.base import AgentExtension as AgentExtension
    from .extensions.base import AgentMaintenanceHooksMixin as AgentMaintenanceHooksMixin
    from .extensions.base import AgentModelHooksMixin as AgentModelHooksMixin
    from .extensions.base import AgentRunHooksMixin as AgentRunHooksMixin
    from .extensions.base import AgentSetupHooksMixin as AgentSetupHooksMixin
    from .extensions.base import AgentToolHooksMixin as AgentToolHooksMixin
    from .extensions.base import AgentTurnHooksMixin as AgentTurnHooksMixin
    from .extensions.base import MiddlewareHook as MiddlewareHook
    from .extensions.base import ModelRequestNext as ModelRequestNext
    from .extensions.base import ToolCallNext as ToolCallNext
    from .extensions.events import CompactionEvent as CompactionEvent
    from .extensions.events import ContentCompletedEvent as ContentCompletedEvent
    from .extensions.events import ContentStartedEvent as ContentStartedEvent
    from .extensions.events import ExtensionEvent as ExtensionEvent
    from .extensions.events import InternalMessageEvent as InternalMessageEvent
    from .extensions.events import MessageAppendedEvent as MessageAppendedEvent
    from .extensions.events import MessageTiming as MessageTiming
    from .extensions.events import PhaseTransitionEvent as PhaseTransitionEvent
    from .extensions.events import ReasoningCompletedEvent as ReasoningCompletedEvent
    from .extensions.events import ReasoningStartedEvent as ReasoningStartedEvent
    from .extensions.events import RunCancelledEvent as RunCancelledEvent
    from .extensions.events import SteeringMessageEvent as SteeringMessageEvent
    from .extensions.external import ExternalEvent as ExternalEvent
    from .extensions.external import ExternalEventExtension as ExternalEventExtension
    from .extensions.internal_message import INTERNAL_MESSAGE_EVENT_NAME as INTERNAL_MESSAGE_EVENT_NAME
    from .extensions.internal_message import InternalMessageExtension as InternalMessageExtension
    from .extensions.memory import InMemoryMessageAccumulator as InMemoryMessageAccumulator
    from .extensions.steering import STEERING_MESSAGE_EVENT_NAME as STEERING_MESSAGE_EVENT_NAME
    from .extensions.steering import SteeringExtension as SteeringExtension
    from .extensions.tool_guidelines import ToolGuidelinesExtension as ToolGuidelinesExtension
    from .ids import new_uuid7 as new_uuid7
    from .json_types import JsonValue as JsonValue
    from .json_types import json_object as json_object
    from .messages import AgentMessage as AgentMessage
    from .messages import AnyMessage as AnyMessage
    from .messages import AssistantMessage as AssistantMessage
    from .messages import ImageBytesSource as ImageBytesSource
    from .messages import ImageContent as ImageContent
    from .messages import ImageDetail as ImageDetail
    from .messages import ImageSource as ImageSource
    from .messages import ImageUrlSource as ImageUrlSource
    from .messages import Message as Message
    from .messages import MessageRole as MessageRole
    from .messages import SystemMessage as SystemMessage
    from .messages import TextContent as TextContent
    from .messages import ToolCall as ToolCall
    from .messages import ToolMessage as ToolMessage
    from .messages import UserContent as UserContent
    from .messages import UserContentPart as UserContentPart
    from .messages import UserMessage as UserMessage
    from .model import AgentModel as AgentModel
    from .model import ModelEvent as ModelEvent
    from .model import ModelEventType as ModelEventType
    from .model import ModelRequest as ModelRequest
    from .model import ModelResponse as ModelResponse
    from .model import ModelUsage as ModelUsage
    from .model import NativeDeferredToolsModel as NativeDeferredToolsModel
    from .model import ReasoningEffort as ReasoningEffort
    from .model import RetryOptions as RetryOptions
    from .model import ServerToolCall as ServerToolCall
    from .model import ServerToolDefinition as ServerToolDefinition
    from .model import ServerToolInputDelta as ServerToolInputDelta
    from .model import ServerToolResult as ServerToolResult
    from .model import TimeoutOptions as TimeoutOptions
    from .model import ToolCallDelta as ToolCallDelta
    from .model import ToolDefinition as ToolDefinition
    from .providers.base import ProviderAuthError as ProviderAuthError
    from .providers.base import ProviderConnectionError as ProviderConnectionError
    from .providers.base import ProviderError as ProviderError
    from .providers.base import ProviderHTTPError as ProviderHTTPError
    from .providers.base import ProviderRefusalError as ProviderRefusalError
    from .providers.base import ProviderResponseError as ProviderResponseError
    from .providers.base import ProviderTimeoutError as ProviderTimeoutError
    from .providers.deepseek import DeepSeekProvider as DeepSeekProvider
    from .providers.openai_compatible import OpenAICompatibleProvider as OpenAICompatibleProvider
    from .resume import ResumeKind as ResumeKind
    from .resume import ResumePoint as ResumePoint
    from .resume import classify_resume as classify_resume
    from .stop import StopInfo as StopInfo
    from .stop import StopReason as StopReason
    from .stop import classify_stop as classify_stop
    from .tools.base import AgentTool as AgentTool
    from .tools.base import ToolExecutionMode as ToolExecutionMode
    from .tools.base import ToolResult as ToolResult
    from .tools.base import get_tool_guidelines as get_tool_guidelines
    from .tools.base import get_tool_snippet as get_tool_snippet
    from .tools.base import render_tool_guidance as render_tool_guidance
    from .tools.base import tool as tool

__version__ = "0.2.2"

_MODULES = {
    "Agent": ".agent",
    "AgentRunConfig": ".agent",
    "AgentRunContext": ".agent",
    "AgentState": ".agent",
    "AgentClient": ".client",
    "create_agent": ".client",
    "AgentEventDispatcher": ".dispatcher",
    "AgentEventQueue": ".event_queue",
    "AgentEvent": ".events",
    "AgentEventType": ".events",
    "AgentPhase": ".events",
    "AgentPhaseTransitionMixin": ".events",
    "ModelOutputTracker": ".events",
    "AgentError": ".exceptions",
    "AgentIterationLimitError": ".exceptions",
    "AgentProtocolError": ".exceptions",
    "AgentResumeError": ".exceptions",
    "AgentStopError": ".exceptions",
    "AgentEventHooksMixin": ".extensions.base",
    "AgentExtension": ".extensions.base",
    "AgentMaintenanceHooksMixin": ".extensions.base",
    "AgentModelHooksMixin": ".extensions.base",
    "AgentRunHooksMixin": ".extensions.base",
    "AgentSetupHooksMixin": ".extensions.base",
    "AgentToolHooksMixin": ".extensions.base",
    "AgentTurnHooksMixin": ".extensions.base",
    "MiddlewareHook": ".extensions.base",
    "ModelRequestNext": ".extensions.base",
    "ToolCallNext": ".extensions.base",
    "CompactionEvent": ".extensions.events",
    "ContentCompletedEvent": ".extensions.events",
    "ContentStartedEvent": ".extensions.events",
    "ExtensionEvent": ".extensions.events",
    "InternalMessageEvent": ".extensions.events",
    "MessageAppendedEvent": ".extensions.events",
    "MessageTiming": ".extensions.events",
    "PhaseTransitionEvent": ".extensions.events",
    "ReasoningCompletedEvent": ".extensions.events",
    "ReasoningStartedEvent": ".extensions.events",
    "RunCancelledEvent": ".extensions.events",
    "SteeringMessageEvent": ".extensions.events",
    "ExternalEvent": ".extensions.external",
    "ExternalEventExtension": ".extensions.external",
    "INTERNAL_MESSAGE_EVENT_NAME": ".extensions.internal_message",
    "InternalMessageExtension": ".extensions.internal_message",
    "InMemoryMessageAccumulator": ".extensions.memory",
    "STEERING_MESSAGE_EVENT_NAME": ".extensions.steering",
    "SteeringExtension": ".extensions.steering",
    "ToolGuidelinesExtension": ".extensions.tool_guidelines",
    "new_uuid7": ".ids",
    "JsonValue": ".json_types",
    "json_object": ".json_types",
    "AgentMessage": ".messages",
    "AnyMessage": ".messages",
    "AssistantMessage": ".messages",
    "ImageBytesSource": ".messages",
    "ImageContent": ".messages",
    "ImageDetail": ".messages",
    "ImageSource": ".messages",
    "ImageUrlSource": ".messages",
    "Message": ".messages",
    "MessageRole": ".messages",
    "SystemMessage": ".messages",
    "TextContent": ".messages",
    "ToolCall": ".messages",
    "ToolMessage": ".messages",
    "UserContent": ".messages",
    "UserContentPart": ".messages",
    "UserMessage": ".messages",
    "AgentModel": ".model",
    "ModelEvent": ".model",
    "ModelEventType": ".model",
    "ModelRequest": ".model",
    "ModelResponse": ".model",
    "ModelUsage": ".model",
    "NativeDeferredToolsModel": ".model",
    "ReasoningEffort": ".model",
    "RetryOptions": ".model",
    "ServerToolCall": ".model",
    "ServerToolDefinition": ".model",
    "ServerToolInputDelta": ".model",
    "ServerToolResult": ".model",
    "TimeoutOptions": ".model",
    "ToolCallDelta": ".model",
    "ToolDefinition": ".model",
    "ProviderAuthError": ".providers.base",
    "ProviderConnectionError": ".providers.base",
    "ProviderError": ".providers.base",
    "ProviderHTTPError": ".providers.base",
    "ProviderRefusalError": ".providers.base",
    "ProviderResponseError": ".providers.base",
    "ProviderTimeoutError": ".providers.base",
    "DeepSeekProvider": ".providers.deepseek",
    "OpenAICompatibleProvider": ".providers.openai_compatible",
    "ResumeKind": ".resume",
    "ResumePoint": ".resume",
    "classify_resume": ".resume",
    "StopInfo": ".stop",
    "StopReason": ".stop",
    "classify_stop": ".stop",
    "AgentTool": ".tools.base",
    "ToolExecutionMode": ".tools.base",
    "ToolResult": ".tools.base",
    "get_tool_guidelines": ".tools.base",
    "get_tool_snippet": ".tools.base",
    "render_tool_guidance": ".tools.base",
    "tool": ".tools.base",
}

__all__ = list(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll] - one table, not two lists


def __getattr__(name: str) -> Any:
    # Imported here and not above, because `import zett_agent` promises to load no submodule.
    from ._lazy import load_export

    return load_export(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
