"""bench/transformers_gpu.py as tools/check gpu sees it. $STUB_FAULT says what is wrong."""

import json
import os
import sys

fault = os.environ.get("STUB_FAULT", "")
assert os.environ["MSDA_LIBRARY"].endswith("/lib/libmsda.so")
if fault == "models_end_early":
    sys.exit(1)
if fault == "models_differ":
    print("WRONG: training: 30 steps of module ended in other bits")
with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
    json.dump({"figures": {"module": {}, "training": {}}}, file)
sys.exit(fault == "models_differ")
