"""Comparison of two imports."""

import json


def parts(model):
    """The architecture without its source, and the bytes of the weights."""
    content = model.to_bytes()
    length = int.from_bytes(content[:8], "little")
    architecture = dict(model.architecture)
    del architecture["source"]
    tensors = json.loads(content[8 : 8 + length])
    tensors.pop("__metadata__")
    return json.dumps(architecture, sort_keys=True), tensors, content[8 + length :]


def assert_same(one, other):
    assert parts(one) == parts(other)
