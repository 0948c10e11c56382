"""Tests of the server; skipped without its packages."""

import pytest

for package in ("starlette", "uvicorn", "msgspec", "httpx"):
    pytest.importorskip(package)
