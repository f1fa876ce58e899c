"""The arguments of template kernels: from the call, or deduced as in C++."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cudasim.arrays import array_of, dtype_name, is_array
from cudasim.live.arguments import cpp_name
from cudasim.live.signature import Signature, split_at_commas


def template_text(signature: Signature, given) -> str:
    """Template arguments in C++, from Python's: ints, bools, dtypes, or names of types."""
    pieces = []
    for value in given if isinstance(given, (tuple, list)) else (given,):
        if isinstance(value, bool):
            pieces.append("true" if value else "false")
        elif dtype := dtype_name(value):
            pieces.append(cpp_name(dtype))
        elif isinstance(value, (int, str)):
            pieces.append(str(value))
        else:
            raise TypeError(f"template: expected ints, bools, dtypes or names of types, got {value!r}")
    if len(pieces) > len(signature.template) and "..." not in " ".join(signature.template):
        declared = ", ".join(signature.template)
        raise TypeError(
            f"template: expected at most {len(signature.template)} ({declared}), got {len(pieces)}"
        )
    return ", ".join(pieces)


def _deduced(name: str, signature: Signature, arguments: Sequence) -> str | None:
    """A template's type as C++ would deduce it from the arguments of a call; None if it could not."""
    for parameter, argument in zip(signature.parameters, arguments, strict=False):
        if not re.search(rf"\b{name}\b(?!\s*(?:::|<))", parameter.declaration):
            continue
        if is_array(argument):
            return cpp_name(array_of(argument).dtype)
        if isinstance(argument, (int, float)) and not isinstance(argument, bool):
            return "float" if isinstance(argument, float) else "int"
    return None


def deduced_template(signature: Signature, arguments: Sequence) -> str:
    """The template arguments that a call leaves out: types as C++ would deduce them, and others from the
    source's own launches, if these agree.
    """
    asked = [split_at_commas(instance) for instance in signature.instances]
    found = []
    for place, declared in enumerate(signature.template):
        name = re.search(r"(\w+)\s*(?:=.*)?$", declared)[1]
        is_type = re.match(r"(?:typename|class)\b", declared)
        value = _deduced(name, signature, arguments) if is_type else None
        if value is None:
            values = {pieces[place] if place < len(pieces) else "" for pieces in asked}
            value = values.pop() if len(values) == 1 else ""
        if not value:
            if "=" in declared:
                break
            known = [
                f"<{instance}>" for instance in signature.instances if "" not in split_at_commas(instance)
            ]
            launched = f"; the source has {', '.join(known)}" if known else ""
            raise TypeError(
                f"template: expected arguments for <{', '.join(signature.template)}>, as in "
                f"{signature.kernel}[grid, block](..., template=(...)){launched}"
            )
        found.append(value)
    return ", ".join(found)
