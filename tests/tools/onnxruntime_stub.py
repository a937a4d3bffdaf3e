"""onnxruntime as tools/check gpu sees it: the wheel for the CPU, or what $STUB_PROVIDERS says."""

import os


def get_available_providers():
    return os.environ.get("STUB_PROVIDERS", "CPUExecutionProvider").split()
