"""Compare the public names of `zett_agent` with the record of the published API.

    python scripts/check_surface.py            list what differs unexpectedly; exit 1 if anything does
    python scripts/check_surface.py --accept   write what differs now into tests/compat/pending.txt

The record is `../shared/compat` beside the repository, else the copy in `tests/compat/data`. What is not
built yet stands in `tests/compat/pending.txt`, one difference a line. A line that no longer applies is an
error too, so nobody can forget to take it out.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
COMPAT = REPOSITORY / "tests" / "compat"
PENDING = COMPAT / "pending.txt"
PACKAGE = "zett_agent"


def record(name: str) -> Path:
    """Return the newest copy of one file of the record."""
    shared = REPOSITORY.parent / "shared" / "compat" / name
    return shared if shared.exists() else COMPAT / "data" / name


def load_comparison() -> ModuleType:
    """Load the record's own program, which knows how to compare."""
    spec = importlib.util.spec_from_file_location("surface", record("surface.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing_part(module: str) -> str | None:
    """Return the first part of a dotted module name that does not exist, or `None`."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if importlib.util.find_spec(name) is None:
            return name
    return None


def module_differences() -> set[str]:
    """Return how the modules differ: a missing module or name is one line, a wrong detail is one line."""
    expected: dict[str, Any] = json.loads(record("surface.json").read_text(encoding="utf-8"))
    missing = {module: part for module in expected if (part := missing_part(module))}
    present = {module: names for module, names in expected.items() if module not in missing}
    _, problems = load_comparison().compare(present)
    return {*missing.values(), *(problem.partition(": missing (")[0] for problem in problems)}


def root_differences() -> set[str]:
    """Return how the root's names differ from those recorded and those that we add."""
    root = importlib.import_module(PACKAGE)
    expected: set[str] = set(json.loads(record("root_exports.json").read_text(encoding="utf-8")))
    expected |= set(json.loads((COMPAT / "data" / "added_root_exports.json").read_text(encoding="utf-8")))
    exported = set(root.__all__)
    broken = {name for name in exported if not hasattr(root, name)}
    return {
        *(f"{PACKAGE}.{name}" for name in expected - exported),
        *(f"{PACKAGE}.{name}: exported, but cannot be loaded" for name in broken),
        *(f"{PACKAGE}.{name}: exported, but not on record" for name in exported - expected),
    }


def main(arguments: list[str]) -> int:
    """Run the comparison; see the module's documentation."""
    found = module_differences() | root_differences()
    lines = PENDING.read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    pending = {line for line in lines if line and not line.startswith("#")}
    if arguments == ["--accept"]:
        PENDING.write_text("\n".join([*comments, *sorted(found)]) + "\n", encoding="utf-8")
        print(f"{len(found)} differences are pending now; there were {len(pending)}")
        return 0
    for line in sorted(found - pending):
        print(f"differs:           {line}")
    for line in sorted(pending - found):
        print(f"no longer pending: {line}")
    if found != pending:
        print(f"\nMend the first kind; take the second kind out of {PENDING.relative_to(REPOSITORY)}.")
        return 1
    print(f"The public names agree with the record, but for {len(pending)} that are pending.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
