"""harrism/mini-nbody: forces of all on all, in four layouts."""

from speed_calls.calls import at, floats

REPOSITORY = "harrism/mini-nbody"


def bodies(version, n=32768):
    def arguments():
        both = () if version == "orig" else (floats(n, 4),)
        return floats(n, 6 if version == "orig" else 4), *both, 0.01, n

    return at(f"cuda/nbody-{version}.cu", "bodyForce", ladder=f"forces {n}")[n // 256, 256](arguments)


LAUNCHES = [
    *(bodies(version) for version in ("orig", "soa", "block", "unroll")),
    *(bodies(version, 16384) for version in ("soa", "block", "unroll")),
]
