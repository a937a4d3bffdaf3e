"""The package without ml_dtypes, which not every distribution has."""

import subprocess
import sys

import numpy as np
import pytest

from hang import HANG_SECONDS

CODE = """
import sys
sys.modules["ml_dtypes"] = None  # as if it were not installed
import libmsda
import numpy as np
value = np.ones((1, 4, 1, 1), {dtype})
print(libmsda.forward(value, [(2, 2)], np.full((1, 1, 1, 1, 2), 0.5, np.float32), np.ones((1, 1, 1, 1), np.float32),
                   out_dtype={output!r}))
"""


def run(dtype="np.float16", output=None):
    return subprocess.run(
        [sys.executable, "-c", CODE.format(dtype=dtype, output=output)], capture_output=True, text=True, timeout=HANG_SECONDS
    )


def test_other_types_work():
    result = run()
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(np.ones((1, 1, 1, 1)))


@pytest.mark.parametrize(
    "arguments, text",
    [
        (dict(output="bfloat16"), "bfloat16 needs the Python package ml_dtypes, which is not installed"),
        (
            dict(dtype="'V2'"),
            "value.dtype is '|V2': must be one of float64, float32, float16, bfloat16, float8_e4m3fn",
        ),
    ],
)
def test_says_what_is_missing(arguments, text):
    assert run(**arguments).stderr.splitlines()[-1] == (
        f"libmsda.InvalidArgumentError: {text}"
    )
