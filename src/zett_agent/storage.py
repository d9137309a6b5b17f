"""Session storage: the encoding of stored messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy_exports
from ._message_codec import MessageKind, decode_messages, encode_messages

if TYPE_CHECKING:
    from ._message_codec import MESSAGE_TYPES as MESSAGE_TYPES

__all__ = ["MESSAGE_TYPES", "MessageKind", "decode_messages", "encode_messages"]

__getattr__, __dir__, _ = lazy_exports(__name__, {"MESSAGE_TYPES": "zett_agent._message_codec"})
