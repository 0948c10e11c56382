"""A Spark session for the tests that need one; they are skipped where Java or pyspark is missing."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

MISSING_PYSPARK = "pyspark is not installed: make test-spark sets up an environment with it"
MISSING_JAVA = "there is no Java, which Spark needs (17 or later): install a Java runtime, or set JAVA_HOME"


def has_java():
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None) is not None


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark", reason=MISSING_PYSPARK)
    if not has_java():
        pytest.skip(MISSING_JAVA)
    from tests.spark.sessions import session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = session("local[2]")
    yield found
    found.stop()
