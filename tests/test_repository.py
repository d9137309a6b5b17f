"""What the repository promises about itself."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def test_the_lock_names_no_host_and_no_path():
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    assert not re.findall(r".*(?:://|^-|\s@\s|(?:^|\s)\.?/).*", lock, flags=re.MULTILINE)


def test_everything_in_the_lock_is_pinned_with_hashes():
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    entries = lock.replace("\\\n", "").splitlines()
    assert len(entries) > 50
    form = re.compile(r"[a-z0-9-]+==\S+( ; [^;]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*")
    assert [entry for entry in entries if not form.fullmatch(entry)] == []


def test_ci_runs_what_developers_run():
    assert "make check" in (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^check: style types layers test$", makefile, flags=re.MULTILINE)
