"""The package root: lazy names that editors see too, and one version."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
from pathlib import Path

import pytest

import zett_agent
import zett_agent.extensions
import zett_agent.providers
import zett_agent.tools

LAZY_PACKAGES = [zett_agent, zett_agent.providers, zett_agent.extensions, zett_agent.tools]


def names_for_editors(package) -> dict[str, str]:
    """Return what the package's `TYPE_CHECKING` block imports: name to module."""
    tree = ast.parse(Path(inspect.getfile(package)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    return {
        alias.asname: "." * node.level + (node.module or "")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # the form that says "exported" to a type checker
    }


@pytest.mark.parametrize("package", LAZY_PACKAGES, ids=lambda package: package.__name__)
def test_editors_see_exactly_what_is_exported(package):
    assert set(names_for_editors(package)) == set(package.__all__)


@pytest.mark.parametrize("package", LAZY_PACKAGES, ids=lambda package: package.__name__)
def test_each_name_is_the_one_of_its_module(package):
    for name, module in names_for_editors(package).items():
        home = importlib.import_module(module, package.__name__)
        assert getattr(package, name) is getattr(home, name), name
        assert vars(package)[name] is getattr(home, name), "a name is looked up only once"


def test_root_names_of_extensions_are_exported_by_the_extensions_too():  # 31 §0, 50 §0.3, 51
    modules = names_for_editors(zett_agent)
    ours = {name for name, module in modules.items() if module.startswith(".extensions.")}
    assert ours <= set(zett_agent.extensions.__all__)


@pytest.mark.parametrize("package", LAZY_PACKAGES, ids=lambda package: package.__name__)
def test_dir_lists_the_exports(package):
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("package", LAZY_PACKAGES, ids=lambda package: package.__name__)
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nonsense'"):
        _ = package.nonsense
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec(f"from {package.__name__} import nonsense")


def test_submodules_are_importable_from_the_root():
    from zett_agent import messages

    assert messages.UserMessage is zett_agent.UserMessage


def test_star_import_gives_every_export():
    namespace: dict[str, object] = {}
    exec("from zett_agent import *", namespace)
    assert set(zett_agent.__all__) <= set(namespace)


def test_the_version_is_that_of_the_distribution():
    assert zett_agent.__version__ == importlib.metadata.version("zett-agent")
