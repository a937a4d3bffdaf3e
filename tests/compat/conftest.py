import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def few_threads():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)
