"""The public names, against the record of the published API."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import zett_agent

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_surface.py"


def test_public_names_agree_with_the_record():
    # In a process of its own, because it imports every module there is.
    result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


A, B = "zett_agent.a", "zett_agent.b.C: x is missing"


def load():
    spec = importlib.util.spec_from_file_location("check_surface", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_missing_or_different_is_found(monkeypatch, tmp_path):
    export = {"kind": "export"}
    expected = {
        "zett_agent.stop": {"StopInfo": export, "Gone": export, "classify_stop": {"kind": "class"}},
        "zett_agent.gone": {"Name": export},
        "zett_agent.gone.deeper": {"Name": export},
        "zett_agent.ids": {"new_uuid7": {"kind": "function", "parameters": ["seed"]}},
    }
    script = load()
    (tmp_path / "surface.json").write_text(json.dumps(expected))
    (tmp_path / "surface.py").write_text(script.record("surface.py").read_text())
    monkeypatch.setattr(script, "record", lambda name: tmp_path / name)
    assert script.module_differences() == {
        "zett_agent.stop.Gone",
        "zett_agent.gone",
        "zett_agent.ids.new_uuid7: parameter seed is missing",
    }


def test_root_names_must_be_on_record(monkeypatch, tmp_path):
    script = load()
    (tmp_path / "root_exports.json").write_text(json.dumps([*zett_agent.__all__[1:], "Missing"]))
    monkeypatch.setattr(script, "record", lambda name: tmp_path / name)
    first = zett_agent.__all__[0]
    differences = script.root_differences()
    assert f"zett_agent.{first}: exported, but not on record" in differences
    assert "zett_agent.Missing" in differences


@pytest.fixture
def script(monkeypatch, tmp_path):
    """The script, with differences and a list of its own."""
    module = load()
    monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    monkeypatch.setattr(module, "PENDING", tmp_path / "pending.txt")
    monkeypatch.setattr(module, "root_differences", set)
    monkeypatch.setattr(module, "module_differences", lambda: {A, B})
    return module


@pytest.mark.parametrize(
    ("pending", "status", "expected"),
    [
        (f"# why\n{A}\n{B}\n", 0, "but for 2 that are pending"),
        (f"# why\n{A}\n", 1, f"differs:           {B}"),
        (
            f"{A}\n{B}\nzett_agent.old\n",
            1,
            "no longer pending: zett_agent.old",
        ),
    ],
)
def test_the_pending_list_must_be_exact(script, capsys, pending, status, expected):
    script.PENDING.write_text(pending)
    assert script.main([]) == status
    assert expected in capsys.readouterr().out


def test_accepting_keeps_the_comments(script):
    script.PENDING.write_text("# why\nzett_agent.old\n")
    assert script.main(["--accept"]) == 0
    assert script.PENDING.read_text() == f"# why\n{A}\n{B}\n"
    assert script.main([]) == 0
