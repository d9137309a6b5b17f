"""Model adapters: one class for each service, loaded when it is first named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_exports

# A new adapter needs one line here and one below, where editors and type checkers look.
_EXPORTS = {
    "DeepSeekProvider": ".deepseek",
    "OpenAICompatibleProvider": ".openai_compatible",
    "ProviderAuthError": ".base",
    "ProviderConnectionError": ".base",
    "ProviderError": ".base",
    "ProviderHTTPError": ".base",
    "ProviderRefusalError": ".base",
    "ProviderResponseError": ".base",
    "ProviderTimeoutError": ".base",
}

if TYPE_CHECKING:
    from .base import ProviderAuthError as ProviderAuthError
    from .base import ProviderConnectionError as ProviderConnectionError
    from .base import ProviderError as ProviderError
    from .base import ProviderHTTPError as ProviderHTTPError
    from .base import ProviderRefusalError as ProviderRefusalError
    from .base import ProviderResponseError as ProviderResponseError
    from .base import ProviderTimeoutError as ProviderTimeoutError
    from .deepseek import DeepSeekProvider as DeepSeekProvider
    from .openai_compatible import OpenAICompatibleProvider as OpenAICompatibleProvider

__getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]
