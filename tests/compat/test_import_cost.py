"""What importing each module loads, in a fresh interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

SDKS = {"openai", "anthropic", "google", "ollama", "mcp"}
HEAVY = SDKS | {"pydantic", "sqlalchemy", "httpx", "tiktoken"}


def loaded_by(program: str) -> set[str]:
    """Return the modules that a program loads in a new interpreter."""
    lines = [
        "import sys; before = set(sys.modules)",
        program,
        "loaded = set(sys.modules) - before",
        "import json; print(json.dumps(list(loaded)))",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


def exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_the_root_loads_no_submodule():  # 10 §0
    assert {name for name in loaded_by("import zett_agent") if name.startswith("zett_agent.")} == set()


RULES = {
    # 10 §0
    **dict.fromkeys(
        ["messages", "model", "stop", "exceptions", "events", "json_types", "ids"],
        HEAVY | {"asyncio", "uuid6"},
    ),
    **dict.fromkeys(["agent", "client"], HEAVY | {"uuid6"}),
    "providers": HEAVY,  # 20 §20.12
    "tools": HEAVY | {"asyncio"},  # 40 §1 and §9.9
    "tools.base": HEAVY,
    "tools.coding": HEAVY - {"pydantic"} | {"truststore"},
    "tools.images": HEAVY - {"pydantic"} | {"truststore"},
    # 63 §3
    **dict.fromkeys(
        ["storage", "sync", "jit_harness", "sandbox.policy"]
        + [f"extensions.{name}" for name in ("shell_approval", "skill", "mcp")],
        HEAVY,
    ),
    **dict.fromkeys(["extensions.todo", "extensions.subagent"], HEAVY - {"pydantic"}),
    "extensions": HEAVY | {"asyncio"},
    "testing": HEAVY,
}


@pytest.mark.parametrize("module", [name for name in RULES if exists(f"zett_agent.{name}")])
def test_a_module_loads_nothing_heavy(module):
    loaded = {name.partition(".")[0] for name in loaded_by(f"import zett_agent.{module}")}
    assert loaded & RULES[module] == set()


BACKGROUND = [
    name
    for name in ("zett_agent.client", "zett_agent.extensions.subagent", "zett_agent.extensions.mcp")
    if exists(name)
]


def test_modules_can_be_imported_by_several_threads_at_once():  # 63 §3
    program = f"""
import importlib, threading
names = {BACKGROUND!r} * 4
errors = []
start = threading.Barrier(len(names) + 1)

def load(name):
    start.wait()
    try:
        importlib.import_module(name)
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=load, args=(name,)) for name in names]
for thread in threads:
    thread.start()
start.wait()
import zett_agent
for name in zett_agent.__all__:
    getattr(zett_agent, name)
for thread in threads:
    thread.join()
assert not errors, errors
"""
    assert set(BACKGROUND) <= loaded_by(program)
