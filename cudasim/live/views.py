"""Methods of a kernel that show what nvcc makes of it; their modules are imported on first use."""

from __future__ import annotations


def sass(kernel, *arguments, gpu="H200", template=None):
    """The machine code beside the source, by line, for a GPU that need not be present: see
    `cudasim.predicting.code_view.sass()`."""
    from cudasim.predicting import code_view

    return code_view.sass(kernel, *arguments, gpu=gpu, template=template)


def ptx(kernel, *arguments, gpu="H200", template=None):
    """The PTX beside the source, by line: see `cudasim.predicting.code_view.ptx()`."""
    from cudasim.predicting import code_view

    return code_view.ptx(kernel, *arguments, gpu=gpu, template=template)
