"""Rendering the guidance of tools, byte for byte. 40 §7, 32 §7."""

from __future__ import annotations

from typing import Any

import pytest

from zett_agent.tools.base import (
    AgentTool,
    render_tool_description,
    render_tool_guidance,
    render_tool_search_text,
    tool,
)


async def nothing(**_: Any) -> None: ...


def make(name: str, snippet: str = "", guidelines: tuple[str, ...] = (), **options: Any) -> AgentTool:
    return AgentTool(name, f"Do {name}.", {}, nothing, guidelines, snippet, **options)


ONE = make("one", "one(1)", ("Use it once.",))
TWO = make("two", "two(\n  a=1)\n\n", ("First rule.", "Second rule."))
RULES_ONLY = make("rules", guidelines=("Only a rule.",))
SILENT = make("silent")
TYPED = make("typed", return_schema={"type": "object", "properties": {"é": {"type": "null"}}})
SCHEMA = '{"properties":{"é":{"type":"null"}},"type":"object"}'


@pytest.mark.parametrize(
    ("tools", "text"),
    [
        ([], ""),
        ([SILENT], ""),
        ([ONE], "# Tool snippets\n- one: one(1)\n\n# Tool guidelines\n## one\n- Use it once."),
        (
            [TWO],
            "# Tool snippets\n- two:\n  two(\n    a=1)\n\n"
            "# Tool guidelines\n## two\n- First rule.\n- Second rule.",
        ),
        ([RULES_ONLY], "# Tool guidelines\n## rules\n- Only a rule."),
        ([make("s", "s()")], "# Tool snippets\n- s: s()"),
        (
            [TWO, SILENT, RULES_ONLY, ONE],
            "# Tool snippets\n- two:\n  two(\n    a=1)\n- one: one(1)\n\n# Tool guidelines\n## two\n"
            "- First rule.\n- Second rule.\n\n## rules\n- Only a rule.\n\n## one\n- Use it once.",
        ),
        ([make("d", "d()", deferred=True)], "# Tool snippets\n- d: d()"),
    ],
    ids=["none", "nothing", "one line", "two lines", "rules only", "snippet only", "several", "deferred"],
)
def test_guidance(tools, text):  # 40 §9.10, 32 acceptance 17
    assert render_tool_guidance(tools) == text


def test_guidance_in_parts():
    assert render_tool_guidance([ONE], snippets=False) == "# Tool guidelines\n## one\n- Use it once."
    assert render_tool_guidance([ONE], guidelines=False) == "# Tool snippets\n- one: one(1)"
    assert render_tool_guidance([ONE], snippets=False, guidelines=False) == ""
    assert render_tool_guidance([TYPED], returns=True) == f"# Tool snippets\n- typed:\n  returns {SCHEMA}"
    both = make("both", "both()", return_schema={"type": "null"})
    assert render_tool_guidance([both], returns=True) == (
        '# Tool snippets\n- both: both()\n  returns {"type":"null"}'
    )


def test_description():
    assert render_tool_description(SILENT) == "Do silent."
    assert render_tool_description(SILENT, base="Other.") == "Other."
    assert render_tool_description(ONE) == "Do one.\n\nSnippet:\n- one(1)\n\nGuidelines:\n- Use it once."
    assert render_tool_description(ONE, snippet=False, base="X") == "X\n\nGuidelines:\n- Use it once."
    assert render_tool_description(TWO, guidelines=False) == "Do two.\n\nSnippet:\n- two(\n-   a=1)"
    assert render_tool_description(TYPED, returns=True) == f"Do typed.\n\nSnippet:\n- returns {SCHEMA}"


def test_search_text():
    @tool(guidelines=["Stay calm.", "Read first."], snippet="find_file(name='a')")
    def find_file(name: str, depth: int = 1) -> str:
        """Find a file.

        Args:
            name: Part of its name.
        """
        return name

    assert render_tool_search_text(find_file) == (
        "find file Find a file. Part of its name. find_file(name='a') Stay calm. Read first."
    )
    assert render_tool_search_text(SILENT) == "silent Do silent."
