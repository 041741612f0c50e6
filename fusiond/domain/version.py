"""The version of the product; `pyproject.toml` says the same, and a test holds them together."""

PRODUCT_VERSION = "0.1.0"
