"""The wheel beside torch 2.6, the oldest that libmsda.torch supports: the tests of torch run there.

    pytest tests/packages/wheel/test_torch26.py --prefix PREFIX [--policy linux_x86_64]

It installs 2.2 GB into build/torch26-venv once.
"""

from conftest import ROOT, environment_beside_torch, passed, python_suite


def test_suite_of_torch(wheel, tmp_path):
    python, variables = environment_beside_torch(wheel, tmp_path, "torch26")
    assert passed(python, "-c", "import torch; print(torch.__version__)", env=variables).startswith("2.6.")
    python_suite(python, tmp_path, python.with_name("msda"), ROOT / "tests" / "torch", **variables)
