"""20 §20.2: the fields that each reasoning effort puts into a request."""

from __future__ import annotations

from typing import Any

import pytest

from support.spec_data import Comparison, recordings
from support.wire_services import NO_RETRY, RecordingTransport, adapter, consume
from zett_agent.messages import UserMessage
from zett_agent.model import ModelRequest, ReasoningEffort

FAMILIES = [
    "effort.openaicompatible",
    "effort.deepseek",
    "effort.deepseek-responses",
    "effort.openai-responses",
]

# Not about the effort; the note of the files lists them.
OTHERS = {"model", "messages", "input", "stream", "stream_options", "store", "tools", "parallel_tool_calls"}


@pytest.mark.parametrize("effort", list(ReasoningEffort))
@pytest.mark.parametrize("recording", recordings(*FAMILIES))
async def test_20_2_recorded_efforts(recording: dict[str, Any], effort: ReasoningEffort) -> None:
    for model, cells in recording["fields"].items():
        transport = RecordingTransport()
        options = {"model": model, "api_key": "test-key", **recording["constructor"]}
        provider = adapter(recording["class"])(**options, transport=transport, retry=NO_RETRY)
        await consume(provider, ModelRequest([UserMessage(content="hi")], reasoning_effort=effort))
        sent = {name: value for name, value in transport.body.items() if name not in OTHERS}
        ours = recording.get("ours", {}).get(model, {})
        Comparison().check(sent, ours.get(effort.value, cells[effort.value]), model)


@pytest.mark.parametrize("recording", recordings(*FAMILIES))
def test_every_effort_has_a_cell(recording: dict[str, Any]) -> None:
    for cells in recording["fields"].values():
        assert set(cells) == {effort.value for effort in ReasoningEffort}
