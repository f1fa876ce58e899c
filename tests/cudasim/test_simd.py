"""Integers that are parts of a word, functions that C++ has not, and roundings: beside numpy and scipy."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import cudasim

COUNT = 1024
PARTS = {2: (np.int16, np.uint16), 4: (np.int8, np.uint8)}
SIGNED, UNSIGNED = 0, 1
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
}


def saturated(value, kind):
    return np.clip(value, np.iinfo(kind).min, np.iinfo(kind).max)


# By name: whether the parts are signed, and what becomes of two of them, of which the lowest bits are kept.
OPERATIONS = {
    "add": (UNSIGNED, lambda x, y, kind: x + y),
    "addss": (SIGNED, lambda x, y, kind: saturated(x + y, kind)),
    "addus": (UNSIGNED, lambda x, y, kind: saturated(x + y, kind)),
    "sub": (UNSIGNED, lambda x, y, kind: x - y),
    "subss": (SIGNED, lambda x, y, kind: saturated(x - y, kind)),
    "subus": (UNSIGNED, lambda x, y, kind: saturated(x - y, kind)),
    "absdiffs": (SIGNED, lambda x, y, kind: abs(x - y)),
    "absdiffu": (UNSIGNED, lambda x, y, kind: abs(x - y)),
    "avgs": (SIGNED, lambda x, y, kind: (x + y + (x + y >= 0)) >> 1),
    "avgu": (UNSIGNED, lambda x, y, kind: (x + y + 1) >> 1),
    "haddu": (UNSIGNED, lambda x, y, kind: (x + y) >> 1),
    "maxs": (SIGNED, lambda x, y, kind: np.maximum(x, y)),
    "maxu": (UNSIGNED, lambda x, y, kind: np.maximum(x, y)),
    "mins": (SIGNED, lambda x, y, kind: np.minimum(x, y)),
    "minu": (UNSIGNED, lambda x, y, kind: np.minimum(x, y)),
}
ALONE = {
    "abs": lambda x, kind: abs(x),
    "absss": lambda x, kind: saturated(abs(x), kind),
    "neg": lambda x, kind: -x,
    "negss": lambda x, kind: saturated(-x, kind),
}


def words() -> tuple[np.ndarray, np.ndarray]:
    """Random ones, and all pairs of those at the ends of what parts can be."""
    ends = [0, 0x80008000, 0x7FFF7FFF, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x00010001, 0x01010101]
    a, b = np.random.default_rng().integers(0, 2**32, (2, COUNT), dtype=np.uint32)
    a[:64], b[:64] = np.repeat(ends, 8), np.tile(ends, 8)
    return a, b


def expected(parts: int) -> dict:
    """What each function makes of two words, by its name."""
    kinds, found = PARTS[parts], {}
    made = [(f"__v{name}{parts}", *rule) for name, rule in OPERATIONS.items()]
    for name, compare in COMPARISONS.items():
        for letter, sign in (("", UNSIGNED),) if name in ("eq", "ne") else (("s", SIGNED), ("u", UNSIGNED)):
            made.append(
                (f"__vcmp{name}{letter}{parts}", sign, lambda x, y, _, f=compare: -f(x, y).astype(int))
            )
            made.append(
                (f"__vset{name}{letter}{parts}", sign, lambda x, y, _, f=compare: f(x, y).astype(int))
            )
    for name, sign, rule in made:
        found[name] = lambda a, b, kind=kinds[sign], rule=rule: rule(
            a.view(kind).astype(int), b.view(kind).astype(int), kind
        )
    for name, rule in ALONE.items():
        found[f"__v{name}{parts}"] = lambda a, b, rule=rule: rule(
            a.view(kinds[SIGNED]).astype(int), kinds[SIGNED]
        )
    return found


@pytest.mark.simulator
@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.memory
def test_parts_of_words(parts):
    functions = expected(parts)
    alone = {f"__v{name}{parts}" for name in ALONE}
    lines = [
        f"    y[{i} * {COUNT} + i] = {name}(a[i]{'' if name in alone else ', b[i]'});"
        for i, name in enumerate(functions)
    ]
    text = "\n".join(lines)
    kernel = cudasim.kernel(
        "__global__ void parts(unsigned *y, const unsigned *a, const unsigned *b) {\n"
        f"    int i = blockIdx.x * 256 + threadIdx.x;\n{text}\n}}"
    )
    (a, b), y = words(), np.zeros((len(functions), COUNT), np.uint32)
    kernel[COUNT // 256, 256](y, a, b)
    unsigned = PARTS[parts][UNSIGNED]
    for name, got in zip(functions, y, strict=True):
        wanted = functions[name](a, b).astype(unsigned).view(np.uint32)
        assert (got == wanted).all(), name


@pytest.mark.simulator
@pytest.mark.parametrize("parts", [2, 4])
def test_sums_of_absolute_differences(parts):
    kernel = cudasim.kernel(f"""__global__ void sums(unsigned *y, const unsigned *a, const unsigned *b) {{
    y[threadIdx.x] = __vsads{parts}(a[threadIdx.x], b[threadIdx.x]);
    y[threadIdx.x + {COUNT}] = __vsadu{parts}(a[threadIdx.x], b[threadIdx.x]);
}}""")
    (a, b), y = words(), np.zeros((2, COUNT), np.uint32)
    kernel[1, COUNT](y, a, b)
    for got, kind in zip(y, PARTS[parts], strict=True):
        differences = abs(a.view(kind).astype(int) - b.view(kind).astype(int))
        assert (got == differences.reshape(COUNT, -1).sum(1)).all()


# The types of dynamic programming: of a word, and of what it is made of.
WORDS = {
    "s16x2": ("unsigned", np.int16),
    "u16x2": ("unsigned", np.uint16),
    "s32": ("int", np.int32),
    "u32": ("unsigned", np.uint32),
}


@pytest.mark.simulator
@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("name", ["max", "min"])
def test_the_best_of_words(name, kind):
    word, part = WORDS[kind]
    calls = [f"__vi{name}3_{kind}(a, b, c)", f"__viadd{name}_{kind}(a, b, c)"]
    of_zero = [call.replace("(", "_relu(") for call in (f"__vi{name}_{kind}(a, b)", *calls)]
    calls += of_zero if kind.startswith("s") else []
    told = "&first, &second" if kind.endswith("x2") else "&second"
    lines = "\n".join(f"y[{n} * {COUNT} + i] = {call};" for n, call in enumerate(calls))
    kernel = cudasim.kernel(f"""using word = unsigned;
__global__ void best(word *y, bool *t, word *p, word *q, word *r) {{
    int i = blockIdx.x * 256 + threadIdx.x;
    {word} a = p[i], b = q[i], c = r[i];
    {lines}
    bool first = false, second;
    y[{len(calls)} * {COUNT} + i] = __vib{name}_{kind}(a, b, {told});
    t[2 * i] = second, t[2 * i + 1] = first;
}}""")
    (a, b), c = words(), np.random.default_rng().integers(0, 2**32, COUNT, dtype=np.uint32)
    y, t = np.zeros((len(calls) + 1, COUNT), np.uint32), np.zeros((COUNT, 2), bool)
    kernel[COUNT // 256, 256](y, t, a, b, c)
    best, first = (np.maximum, np.greater_equal) if name == "max" else (np.minimum, np.less_equal)
    x, of, z = (word.view(part) for word in (a, b, c))
    wanted = [best(best(x, of), z), best(x + of, z)]  # numpy's sums keep their lowest bits
    if kind.startswith("s"):
        wanted += [np.maximum(0, value) for value in (best(x, of), *wanted)]
    for call, got, value in zip([*calls, "with predicates"], y, [*wanted, best(x, of)], strict=True):
        assert (got == value.view(np.uint32)).all(), call
    count = 2 if kind.endswith("x2") else 1
    assert (t[:, :count] == first(x, of).reshape(COUNT, count)).all()


FUNCTIONS = {
    "erfinv(x)": lambda x: special.erfinv(x),
    "erfcinv(1 + x)": lambda x: special.erfcinv(1 + x),
    "erfcinv(exp(-600 * fabs(x)))": lambda x: special.erfcinv(np.exp(-600 * abs(x))),
    "normcdfinv(0.5 * (1 + x))": lambda x: special.ndtri(0.5 * (1 + x)),
    "erfcx(40 * fabs(x))": lambda x: special.erfcx(40 * abs(x)),
    "cyl_bessel_i0(20 * x)": lambda x: special.i0(20 * x),
    "cyl_bessel_i1(20 * x)": lambda x: special.i1(20 * x),
    "cyl_bessel_i0(700 * x)": lambda x: special.i0(700 * x),
    "cyl_bessel_i1(700 * x)": lambda x: special.i1(700 * x),
    "norm4d(x, 1, 2, 3)": lambda x: np.sqrt(x * x + 14),
    "rnorm3d(x, 1, 2)": lambda x: 1 / np.sqrt(x * x + 5),
}


@pytest.mark.simulator
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_doubles(function):
    kernel = cudasim.kernel(
        "__global__ void f(double *y, const double *p) {\n"
        f"    double x = p[threadIdx.x]; y[threadIdx.x] = {function};\n}}"
    )
    x = np.random.default_rng().uniform(-1, 1, 256)
    x[:3] = 1e-12, -1e-3, 0.5
    y = np.zeros(256)
    kernel[1, 256](y, x)
    wanted = FUNCTIONS[function](x)
    assert np.allclose(y, wanted, rtol=2e-14 if "exp" not in function else 1e-12, atol=0)


ROUNDED = {
    "__dadd_{}(x, 1e-20)": lambda x: Fraction(x) + Fraction(1e-20),
    "__dsub_{}(x, 1e-20)": lambda x: Fraction(x) - Fraction(1e-20),
    "__dmul_{}(x, 1.1)": lambda x: Fraction(x) * Fraction(1.1),
    "__ddiv_{}(x, 3.0)": lambda x: Fraction(x) / 3,
    "__fma_{}(x, x, 0.1)": lambda x: Fraction(x) * Fraction(x) + Fraction(0.1),
}


@pytest.mark.simulator
@pytest.mark.parametrize("operation", ROUNDED)
def test_roundings_of_doubles(operation):
    """The exact result is between the two, which are neighbours or equal; towards zero it is one of them."""
    down, up, zero = (operation.format(rounding) for rounding in ("rd", "ru", "rz"))
    kernel = cudasim.kernel(
        "__global__ void f(double *y, const double *p) {\n"
        "    double x = p[threadIdx.x]; double *to = y + 3 * threadIdx.x;\n"
        f"    to[0] = {down}; to[1] = {up}; to[2] = {zero};\n}}"
    )
    x, y = np.random.default_rng().uniform(-1, 1, 64), np.zeros((64, 3))
    kernel[1, 64](y, x)
    for value, (below, above, cut) in zip(x, y, strict=True):
        exact = ROUNDED[operation](float(value))
        assert Fraction(below) <= exact <= Fraction(above)
        assert above in (below, np.nextafter(below, np.inf))
        assert cut == (below if exact > 0 else above)


@pytest.mark.simulator
def test_bessel_functions_far_from_zero():
    kernel = cudasim.kernel(
        "__global__ void f(double *y, const double *x) {\n"
        "    int i = threadIdx.x; y[i] = cyl_bessel_i0(x[i]); y[3 + i] = cyl_bessel_i1(x[i]);\n}"
    )
    y = np.zeros(6)
    kernel[1, 3](y, np.array([713, -np.inf, np.nan]))
    with np.errstate(over="ignore"):
        scaled = [of(713) * np.exp(356.5) * np.exp(356.5) for of in (special.i0e, special.i1e)]
    assert np.allclose(y[::3], scaled, rtol=2e-14)
    assert y[1] == np.inf and y[4] == -np.inf and np.isnan(y[2::3]).all()


@pytest.mark.simulator
def test_a_source_that_names_the_special_functions_of_cpp_has_them():
    for first, name in [("", "std::legendre"), ("using namespace std;\n", "legendre")]:
        kernel = cudasim.kernel(f"{first}__global__ void f(double *y) {{ y[0] = {name}(2, 0.5); }}")
        y = np.zeros(1)
        kernel[1, 1](y)
        assert y[0] == -0.125
