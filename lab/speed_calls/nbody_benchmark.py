"""baltikaa9/nbody-cuda-benchmark: forces of all bodies on all, and what they do to them."""

from speed_calls.calls import at, floats, positive

REPOSITORY = "baltikaa9/nbody-cuda-benchmark"
BODIES = 16384


def step(kernel, block, *template):
    return at("nbody_bench.cu", kernel, template=template, ladder="forces")[BODIES // block, block](
        lambda: (
            *(positive(BODIES, 4) for _ in range(2)),
            *(floats(BODIES, 4) for _ in range(2)),
            BODIES,
            0.01,
        )
    )


LAUNCHES = [
    *(step("integrateBodies", block, "float4") for block in (64, 256)),
    *(step("integrateBodiesShared", block, "float4", block) for block in (64, 128, 256, 1024)),
]
