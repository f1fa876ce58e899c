"""The number of a kernel's blocks that a multiprocessor holds, and its limits: the formulas of NVIDIA's
occupancy calculator (its spreadsheet, and Nsight Compute's page Occupancy)."""

from __future__ import annotations

from dataclasses import dataclass

from cudasim.predicting.cards import Card


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Occupancy:
    """How much of a kernel a multiprocessor holds at once.

    blocks, warps: how many it holds. fraction: these warps over the maximum. limits: how many blocks each
    resource alone would allow. limiter: the resources that allow the fewest."""

    blocks: int
    warps: int
    fraction: float
    limits: dict[str, int]

    @property
    def limiter(self) -> list[str]:
        return [name for name, blocks in self.limits.items() if blocks == self.blocks]


def occupancy(card: Card, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """threads: of a block. registers: of a thread. shared_bytes: of a block, static and dynamic together.
    A block that the card cannot hold at all has 0 blocks."""
    warps = -(-threads // 32)
    by_warp = _rounded(max(registers, 1) * 32, card.register_unit)
    # Each of the four parts of a multiprocessor has its own registers, and a warp stays in one part.
    held = card.registers // card.schedulers // by_warp * card.schedulers
    shared = _rounded(shared_bytes + card.shared_reserved, card.shared_unit)
    limits = {
        "warps": min(card.warps, card.threads // 32) // warps,
        "blocks": card.blocks,
        "registers": held // warps if registers <= card.most_registers else 0,
        "shared memory": card.shared_bytes // shared if shared_bytes > 0 else card.blocks,
    }
    if shared_bytes > card.shared_per_block:
        limits["shared memory"] = 0
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * warps, blocks * warps / card.warps, limits)
