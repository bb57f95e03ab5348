"""Fixtures of several files."""
import pytest
from processes import Processes, has_gloo


@pytest.fixture(scope="session")
def processes():
    """Three processes that run parts of tests together."""
    if not has_gloo():
        pytest.skip("this torch has no Gloo")
    three = Processes(3)
    yield three
    three.stop()
