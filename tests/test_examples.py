"""The examples, and every Python block of the README, run as a reader would run them."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


def run(example, **environment):
    """Run an example in a process of its own; return its exit status, output and error output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DEEPSEEK_")}
    result = subprocess.run(
        [sys.executable, REPOSITORY / "examples" / example],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env=clean | environment,
    )
    return result.returncode, result.stdout, result.stderr


class Service(BaseHTTPRequestHandler):
    """Chat completions: calls a tool if one is offered, and repeats what the tool said."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, self.headers["authorization"], request))
        if self.server.refuses:
            self.respond(401, "application/json", json.dumps({"error": {"message": "no such key"}}))
            return
        last = request["messages"][-1]
        if last["role"] == "tool":
            delta, finish = {"content": f"It is {last['content']}."}, "stop"
        elif request.get("tools"):
            function = {"name": "add", "arguments": '{"a": 20394, "b": 58872}'}
            delta = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
            finish = "tool_calls"
        else:
            delta, finish = {"content": "Hello."}, "stop"
        chunks = [{"choices": [{"index": 0, "delta": delta}]}]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self.respond(200, "text/event-stream", "".join([*events, "data: [DONE]\n\n"]))

    def respond(self, status, media_type, text):
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format, *arguments):
        """Say nothing."""


@pytest.fixture
def service():
    """A model service on this machine, in a thread of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.requests, server.refuses = [], False
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_basic_prints_the_sum():
    assert run("basic.py") == (0, "5\n", "")


def test_streaming_shows_every_step_in_order():
    status, output, errors = run("streaming.py")
    assert (status, errors) == (0, "")
    assert output.splitlines() == [
        "[calls temperature with {'city': 'Rome'}]",
        "[result: 19.0]",
        "(19 is mild.)",
        "It is mild in Rome: 19 degrees.",
    ]


@pytest.mark.parametrize("key", [{}, {"DEEPSEEK_API": " "}])
def test_deepseek_says_what_to_set(key):
    status, output, errors = run("deepseek.py", **key)
    assert status != 0
    assert output == ""
    assert "Set the environment variable DEEPSEEK_API" in errors
    assert "Traceback" not in errors


def test_deepseek_talks_to_a_service(service):
    environment = {"DEEPSEEK_API": "secret", "DEEPSEEK_BASE_URL": service.url}
    assert run("deepseek.py", **environment) == (0, "It is 79266.\n", "")
    (path, key, first), (_, _, second) = service.requests
    assert (path, key) == ("/v1/chat/completions", "Bearer secret")
    assert first["model"] == "deepseek-v4-flash"
    assert [message["role"] for message in second["messages"][-2:]] == ["assistant", "tool"]


def test_deepseek_reports_a_refusal_without_a_traceback(service):
    service.refuses = True
    status, output, errors = run("deepseek.py", DEEPSEEK_API="secret", DEEPSEEK_BASE_URL=service.url)
    assert (status, output) == (1, "")
    assert errors.startswith("DeepSeek did not answer: ")
    assert "401" in errors
    assert "no such key" in errors
    assert "Traceback" not in errors
    assert "secret" not in errors


BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
BLOCKS = BLOCK.findall((REPOSITORY / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("code", "expected"), BLOCKS, ids=[f"block {n}" for n in range(len(BLOCKS))])
def test_the_readme_works(code, expected, service, tmp_path, monkeypatch, capsys):
    # The two blocks with a real provider talk to the service of this test.
    code = code.replace('os.environ["DEEPSEEK_API"]', f'"key", base_url={service.url!r}')
    code = code.replace("http://localhost:8000/v1", service.url)
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "readme.py"
    program.write_text(code, encoding="utf-8")
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out == (expected or "Hello.\n")


def test_the_readme_is_read_completely():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert len(BLOCKS) == text.count("```python")
    assert len([expected for _, expected in BLOCKS if expected]) == text.count("```text")
