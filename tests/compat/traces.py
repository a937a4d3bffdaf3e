"""Whether a patch leaves traces: the attributes of other projects' modules and classes, compared one by one."""

import re
import sys

OWNERS = re.compile(r"(mmcv|groundingdino|detrex|models\.ops|ultralytics|rfdetr|src\.zoo|engine\.deim|project)\b|.*\.modeling_")
# Attributes that torch.compile, copy and transformers themselves add to modules and classes.
BY_OTHERS = re.compile(r"__(compiled_fn|builtins_dict|import_torch|resume_at|slotnames__)|.*_cached_value$")


def snapshot():
    """[(owner, its attributes)] of every imported module of the projects, and of every class in it."""
    modules = [module for name, module in list(sys.modules.items()) if OWNERS.match(name)]
    classes = [item for module in modules for item in list(vars(module).values()) if isinstance(item, type)]
    return [(owner, _attributes(owner)) for owner in [*modules, *classes]]


def changes(before):
    """The attributes that are others than in the snapshot."""
    found = []
    for owner, attributes in before:
        now = _attributes(owner)
        for name in attributes.keys() | now.keys():
            if name not in attributes or name not in now or attributes[name] is not now[name]:
                found.append(f"{owner.__name__}.{name}")
    return found


def _attributes(owner):
    return {name: value for name, value in vars(owner).items() if not BY_OTHERS.match(name)}
