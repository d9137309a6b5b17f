"""What `zett_agent.storage` offers; the encoding itself is tested in test_message_codec.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from zett_agent import _message_codec, storage


def test_the_codec_is_exported():
    for name in ("MESSAGE_TYPES", "MessageKind", "decode_messages", "encode_messages"):
        assert getattr(storage, name) is getattr(_message_codec, name)
        assert name in storage.__all__
        assert name in dir(storage)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"zett_agent\.storage.*Nothing"):
        _ = storage.Nothing


def test_importing_it_loads_nothing_heavy():
    program = """
import sys
import zett_agent.storage
heavy = {"sqlalchemy", "aiosqlite", "tiktoken", "pydantic", "httpx", "asyncio"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
