"""The machinery of one request: how it loads, steps, runs tools and ends. Private."""
