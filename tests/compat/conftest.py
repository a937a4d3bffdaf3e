import sys

import libmsda.compat
import pytest
import torch
from traces import changes, snapshot


@pytest.fixture(autouse=True, scope="session")
def few_threads():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


@pytest.fixture(autouse=True)
def leaves_no_trace(monkeypatch):
    before = snapshot()
    yield
    assert changes(before) == []
    assert not isinstance(sys.modules.get("MultiScaleDeformableAttention"), libmsda.compat._compiled._Extension)
    assert not libmsda.compat._patch._sites
