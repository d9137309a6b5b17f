"""How a docstring becomes description, argument texts, snippet and guidelines. 40 §4.1."""

from __future__ import annotations

import pytest

from zett_agent.tools.base import get_tool_guidelines, get_tool_snippet, tool


def documented(docstring: str):
    def function(path: str = "", limit: int = 1) -> str:
        return path

    function.__doc__ = docstring
    return function


def texts(docstring: str) -> dict[str, str | None]:
    built = tool(documented(docstring), guidelines="Any.")
    return {name: schema.get("description") for name, schema in built.parameters["properties"].items()}


class TestDescription:
    def test_is_the_first_paragraph_on_one_line(self):
        built = tool(documented("Read a file\n    line by line.\n\n    Later text.\n"), guidelines="Any.")
        assert built.description == "Read a file line by line."

    @pytest.mark.parametrize("docstring", ["", "   \n ", None, "Args:\n    path: Where."])
    def test_is_required(self, docstring):  # 40 §9.3
        with pytest.raises(ValueError, match="docstring description"):
            tool(documented(docstring), guidelines="Any.")

    def test_is_required_by_the_readers_too(self):
        for reader in (get_tool_snippet, get_tool_guidelines):
            with pytest.raises(ValueError, match="docstring description"):
                reader(documented(""))


class TestSections:
    def test_headings_are_found_in_any_case_indentation_and_order(self):
        docstring = """Do it.

        GUIDELINES:
            - First rule.
          Snippet:
            do(path="a")
        Parameters:
            path: Where.
        """
        function = documented(docstring)
        assert get_tool_guidelines(function) == ("First rule.",)
        assert get_tool_snippet(function) == 'do(path="a")'
        assert texts(docstring)["path"] == "Where."

    def test_a_repeated_section_continues_the_earlier_one(self):
        docstring = """Do it.

        Args:
            path: Where.

        Guidelines:
            - One.

        Arguments:
            limit: How many.

        Guidelines:
            - Two.
        """
        assert get_tool_guidelines(documented(docstring)) == ("One.", "Two.")
        assert texts(docstring) == {"path": "Where.", "limit": "How many."}

    def test_without_sections_there_is_nothing(self):
        assert get_tool_guidelines(documented("Do it.")) == ()
        assert get_tool_snippet(documented("Do it.")) == ""


class TestArguments:
    def test_forms_of_an_entry(self):
        docstring = """Do it.

        Args:
            path (str, optional): Where: here
                or there.
            limit (Literal["a:b"]): How many.
        """
        assert texts(docstring) == {"path": "Where: here or there.", "limit": "How many."}

    def test_a_line_without_a_colon_continues_the_entry(self):
        docstring = "Do it.\n\n    Args:\n        path: Where\n        it is.\n        limit: How many."
        assert texts(docstring) == {"path": "Where it is.", "limit": "How many."}

    def test_an_empty_text_says_nothing(self):
        assert texts("Do it.\n\n    Args:\n        path:\n        limit: How many.")["path"] is None

    def test_unknown_names_are_refused(self):  # 40 §9.3
        with pytest.raises(ValueError, match="unknown parameters: file, zone"):
            texts("Do it.\n\n    Args:\n        zone: a\n        path: b\n        file: c")


class TestSnippet:
    def test_blank_lines_and_common_indentation_go(self):
        docstring = "Do it.\n\n    Snippet:\n            do(1)\n\n            do(2)\n"
        assert get_tool_snippet(documented(docstring)) == "do(1)\ndo(2)"


class TestGuidelines:
    def test_one_leading_dash_goes(self):
        docstring = "Do it.\n\nGuidelines:\n    - One.\n    -two\n    Three.\n    -- four\n    -\n"
        assert get_tool_guidelines(documented(docstring)) == ("One.", "two", "Three.", "- four")

    @pytest.mark.parametrize("guidelines", [(), [], "", " ", ["", " "]])
    def test_at_least_one_is_required(self, guidelines):  # 40 §9.3
        with pytest.raises(ValueError, match="at least one non-empty guideline"):
            tool(documented("Do it."), guidelines=guidelines)

    def test_at_least_one_is_required_in_the_docstring(self):
        with pytest.raises(ValueError, match="at least one non-empty guideline"):
            tool(documented("Do it.\n\n    Guidelines:\n"))

    def test_options_replace_the_sections(self):
        docstring = "Do it.\n\n    Snippet:\n        do()\n    Guidelines:\n        - One."
        function = documented(docstring)
        assert tool(function).snippet == "do()"
        assert tool(function).guidelines == ("One.",)
        assert tool(function, snippet="").snippet == ""
        assert tool(function, snippet="go()").snippet == "go()"
        assert tool(function, guidelines="Two.").guidelines == ("Two.",)
        assert tool(function, guidelines=["Two.", "Three."]).guidelines == ("Two.", "Three.")


@pytest.mark.parametrize(
    "heading",
    [
        "Returns:",
        "Raises:",
        "Examples:",
        "Notes:",
        "Yields:",
        "Warning:",
        "Warnings:",
        "See Also:",
        "returns:",
        "Custom heading:",
    ],
)
def test_better_2_any_heading_ends_a_section(heading):
    docstring = f"""Do it.

        Args:
            path: Where.
        {heading.capitalize()}
            ignored: text
        Guidelines:
            - One.

        {heading}
            Not a rule.

        Snippet:
            do()
        {heading}
            not code
        """
    function = documented(docstring)
    assert get_tool_guidelines(function) == ("One.",)
    assert get_tool_snippet(function) == "do()"
    assert texts(docstring)["path"] == "Where."


def test_better_2_a_lower_case_entry_at_the_level_of_the_heading_is_no_heading():
    assert texts("Do it.\n\n    Args:\n    path:\n    limit: Many.") == {"path": None, "limit": "Many."}


def test_better_3_deeper_lines_continue_an_entry():
    docstring = """Do it.

        Args:
            path: Where,
                see http://example.com: the rules
            limit: How many.

        Guidelines:
            - Keep it short,
              as short as possible.
            - Another
                one: with a colon.
        """
    assert get_tool_guidelines(documented(docstring)) == (
        "Keep it short, as short as possible.",
        "Another one: with a colon.",
    )
    assert texts(docstring) == {
        "path": "Where, see http://example.com: the rules",
        "limit": "How many.",
    }


def test_better_3_a_list_without_bullets_keeps_one_line_per_guideline():
    docstring = "Do it.\n\n    Guidelines:\n        One.\n        Two.\n"
    assert get_tool_guidelines(documented(docstring)) == ("One.", "Two.")


def test_better_3_snippets_keep_their_shape():
    docstring = """Do it.

        Snippet:
            for path in paths:
                do(path)

            done()
        """
    assert get_tool_snippet(documented(docstring)) == "for path in paths:\n    do(path)\ndone()"
