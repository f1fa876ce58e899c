"""What CUDA's runtime has and the simulator has not, and why: told by name, all at once."""

from __future__ import annotations

import re

from cudasim.live.text import blanked, line_of

# Names of functions and of the types that only these take.
_REFUSED = (
    (r"cudaIpc\w+|cudaMemPool(?:Export|Import)\w+", "memory that processes share: a program is one process"),
    (r"cudaGraphics\w+|cudaGL\w+|cudaEGL\w+|cudaVDPAU\w+|cudaD3D\w+",
     "memory of a graphics API, which no CPU here draws with"),
    (r"cuda\w*External(?:Memory|Semaphore)\w*|cudaDeviceGetNvSciSyncAttributes",
     "memory and semaphores of other APIs (Vulkan, Direct3D, NvSci)"),
    (r"cudaLibrary\w+", "modules of machine code or PTX: there is no GPU that would run them"),
    (r"cudaGetExportTable", "a table of the driver's that CUDA does not document"),
    (r"cudaLogs\w+", "the driver's log: the simulator tells errors on the standard error"),
    (r"cudaArrayGetSparseProperties|cudaMipmappedArrayGetSparseProperties|cuda\w*ArrayGetMemoryRequirements",
     "arrays without memory of their own, which only the driver API fills"),
    (r"cudaArrayGetPlane", "arrays of several planes, which come from video"),
    (r"cudaDevice(?:Unr|R)egisterAsyncNotification|cudaAsync(?:Callback|Notification)\w*",
     "notes on a GPU's memory that other programs take: there are none"),
    (r"cudaDeviceFlushGPUDirectRDMAWrites", "writes of other hardware into a GPU's memory"),
    (r"cudaDeviceGet(?:Host|P2P)AtomicCapabilities", "which atomic operations a link has: there is no link"),
    (r"cudaFuncGetName", "the name that nvcc gives a kernel in machine code"),
    (r"cudaOccupancyMaxActiveClusters", "which multiprocessors of a chip share a cluster: it is not public"),
)  # fmt: skip


def why_refused(name: str) -> str:
    """Why there is no function of this name; "" for a name that nothing is known of."""
    return next((why for pattern, why in _REFUSED if re.fullmatch(pattern, name)), "")


def refusals(source: str, file: str) -> list[str]:
    """A sentence for each name that the source uses, with its first line."""
    text = blanked(source)
    used = {
        match[0]: line_of(text, match.start()) for match in reversed(list(re.finditer(r"\bcuda\w+", text)))
    }
    found = [(line, name, why) for name, line in used.items() if (why := why_refused(name))]
    return [f"error: {file}:{line}: {name} is not there: {why}" for line, name, why in sorted(found)]
