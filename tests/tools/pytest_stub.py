"""pytest as tools/check gpu sees it: a test of the host's arrays and one of the GPU's. $STUB_FAULT says what is wrong."""

import os
import sys

fault = os.environ.get("STUB_FAULT", "")
assert os.environ["MSDA_TEST_DEVICE"] == "cuda" and os.environ["MSDA_LIBRARY"].endswith("/lib/libmsda.so")
results = next(word.partition("=")[2] for word in sys.argv if word.startswith("--junitxml="))
OUTCOMES = {
    "python_skips": '<skipped message="CUDA cannot be used"/>',
    "python_needs_no_gpu": '<skipped message="there is a GPU"/>',
    "python_fails": "<failure/>",
}
outcome = OUTCOMES.get(fault, "")
suite = sys.argv[-1].replace("/", ".")
cases = [f'<testcase classname="{suite}" name="test_call[cpu]"/>']
if fault != "python_without_gpu":
    cases.append(f'<testcase classname="{suite}" name="test_call[cuda]">{outcome}</testcase>')
if fault != "python_ends_early":
    with open(results, "w") as file:
        file.write(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
sys.exit(fault in ("python_fails", "python_ends_early"))
