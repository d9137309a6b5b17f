"""Test support: models whose answers are written in the test, so that nothing needs a network.

`ScriptedModel` plays a list of steps, one for each model request; `FunctionModel` asks a function.
Both are plain `AgentModel`s and go wherever a provider goes.

Example:
    >>> from zett_agent.testing import ScriptedModel, call
    >>> model = ScriptedModel(call("add", a=2, b=3), "The sum is 5.")
    >>> model.remaining
    2
"""

from __future__ import annotations

from ._models import FunctionModel, ScriptedModel, ScriptExhausted, ScriptUnfinished, StepInfo
from ._steps import Step, call, calls, fail, hang, say

__all__ = [
    "FunctionModel",
    "ScriptExhausted",
    "ScriptUnfinished",
    "ScriptedModel",
    "Step",
    "StepInfo",
    "call",
    "calls",
    "fail",
    "hang",
    "say",
]
