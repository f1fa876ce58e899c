"""GGgary666/KMenas-GPU: the nearest of the centres of clusters."""

from speed_calls.calls import at, f32, floats, i32, zeros

REPOSITORY = "GGgary666/KMenas-GPU"
SAMPLES, FEATURES, CLUSTERS = 16384, 256, 64


def nearest(version, kernel, block, template, *counts):
    return at(f"v{version}.cu", kernel, template=template, ladder="nearest centre")[SAMPLES, block](
        lambda: (
            floats(SAMPLES, FEATURES),
            floats(CLUSTERS, FEATURES),
            zeros(SAMPLES, dtype=i32),
            zeros(SAMPLES),
            *(zeros(CLUSTERS, dtype=i32) for _ in counts),
            FEATURES,
            CLUSTERS,
        )
    )


LAUNCHES = [
    nearest(2, "calClustersDistkernel", 128, (f32,)),
    nearest(3, "calClustersDistPackedkernel", 32, (f32, 1), "counted"),
    nearest(3, "calClustersDistPackedkernel", 32, (f32, 4), "counted"),
]
