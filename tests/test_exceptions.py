"""The exception tree, and exceptions that travel between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

from zett_agent.exceptions import (
    AgentError,
    AgentIterationLimitError,
    AgentProtocolError,
    AgentResumeError,
    AgentStopError,
)
from zett_agent.messages import AssistantMessage
from zett_agent.stop import StopInfo, StopReason


def test_e1_hierarchy():
    assert AgentError.__bases__ == (Exception,)
    for error_type in (AgentProtocolError, AgentIterationLimitError, AgentStopError, AgentResumeError):
        assert error_type.__bases__ == (AgentError,)


def test_e2_stop_error():
    error = AgentStopError(StopInfo(StopReason.REFUSAL))
    assert "refusal" in str(error)
    assert error.message is None
    assert error.stop == StopInfo(StopReason.REFUSAL)


def test_e2_stop_error_describes_the_whole_stop():
    stop = StopInfo(StopReason.INTERRUPTED, "error", message="upstream reset")
    assert stop.describe() in str(AgentStopError(stop))


def test_e3_resume_error():
    error = AgentResumeError("empty", "m")
    assert error.reason == "empty"
    assert str(error) == "m"


@pytest.mark.parametrize(
    "travel", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]
)
def test_be1_exceptions_keep_their_attributes(travel):
    answer = AssistantMessage(content="half", stop=StopInfo(StopReason.MAX_OUTPUT))
    stopped = AgentStopError(StopInfo(StopReason.MAX_OUTPUT, "length"), answer)
    stopped.request_id = "r1"
    other = travel(stopped)
    assert type(other) is AgentStopError
    assert other.stop == stopped.stop
    assert other.message == answer
    assert str(other) == str(stopped)
    assert other.request_id == "r1"

    resumed = travel(AgentResumeError("completed", "nothing to resume"))
    assert type(resumed) is AgentResumeError
    assert (resumed.reason, str(resumed)) == ("completed", "nothing to resume")


@pytest.mark.skipif(not hasattr(Exception, "add_note"), reason="notes came with Python 3.11")
def test_be1_notes_travel_too():
    error = AgentResumeError("empty", "m")
    error.add_note("2 steering messages were discarded")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["2 steering messages were discarded"]


def test_be1_subclasses_of_an_application_travel():
    error = pickle.loads(pickle.dumps(CustomResumeError(session="s1")))
    assert type(error) is CustomResumeError
    assert (error.reason, error.session, str(error)) == ("malformed", "s1", "s1 is malformed")


class CustomResumeError(AgentResumeError):
    def __init__(self, *, session: str) -> None:
        super().__init__("malformed", f"{session} is malformed")
        self.session = session


@pytest.mark.parametrize("error_type", [AgentError, AgentProtocolError, AgentIterationLimitError])
def test_plain_errors_travel(error_type):
    error = pickle.loads(pickle.dumps(error_type("what happened")))
    assert type(error) is error_type
    assert str(error) == "what happened"
