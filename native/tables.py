"""Write native/elementary_tables.h: the constants of native/elementary.h, from Python's decimal arithmetic.

Run `python native/tables.py`; tests/test_native_number.py checks that the file is what this writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path

getcontext().prec = 60
LN2 = Decimal(2).ln()
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
EULER = Decimal("0.57721566490153286060651209008240243104215933593992359880577")


def significant(x: Decimal, digits: int) -> float:
    """``x`` rounded to that many binary digits."""
    step = Fraction(2) ** (math.frexp(float(x))[1] - digits)
    return float(round(Fraction(x) / step) * step)


def on_grid(x: Decimal, digits: int) -> float:
    """``x`` rounded to a multiple of 2**-digits."""
    return float(Fraction(round(Fraction(x) * 2**digits), 2**digits))


def polynomial(f: Callable[[Decimal], Decimal], low: float, high: float, degree: int) -> list[float]:
    """The polynomial through f at the Chebyshev nodes of [low, high]: nearly the best of its degree."""
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [Decimal(middle + half * math.cos(math.pi * (i + 0.5) / (degree + 1))) for i in range(degree + 1)]
    slopes = [f(x) for x in nodes]  # divided differences, then Newton's form multiplied out
    for order in range(1, degree + 1):
        for i in range(degree, order - 1, -1):
            slopes[i] = (slopes[i] - slopes[i - 1]) / (nodes[i] - nodes[i - order])
    out = [slopes[degree]]
    for i in range(degree - 1, -1, -1):
        shifted = [Decimal(0), *out]
        out = [a - nodes[i] * b for a, b in zip(shifted, [*out, Decimal(0)], strict=True)]
        out[0] += slopes[i]
    return [float(c) for c in out]


def series(terms: Callable[[int], Decimal]) -> Callable[[Decimal], Decimal]:
    """The function whose power series has these coefficients."""
    known = [terms(n) for n in range(90)]

    def value(x: Decimal) -> Decimal:
        out = Decimal(0)
        for c in reversed(known):
            out = out * x + c
        return out

    return value


def zeta_less_one(s: int) -> Decimal:
    """Riemann's zeta(s) - 1 for s >= 2, by Euler and Maclaurin's sum from 30 on."""
    n, total = 30, Decimal(0)
    for k in range(2, n):
        total += Decimal(k) ** -s
    total += Decimal(n) ** (1 - s) / (s - 1) + Decimal(n) ** -s / 2
    rising = Decimal(s)
    for j, b in enumerate(bernoulli(16), 1):
        total += b / math.factorial(2 * j) * rising * Decimal(n) ** (1 - s - 2 * j)
        rising *= (s + 2 * j - 1) * (s + 2 * j)
    return total


def bernoulli(count: int) -> list[Decimal]:
    """The first Bernoulli numbers of even index from 2 on."""
    numbers = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        numbers.append(-sum((math.comb(m + 1, k) * numbers[k] for k in range(m)), Fraction(0)) / (m + 1))
    return [Decimal(b.numerator) / Decimal(b.denominator) for b in numbers[2::2]]


def logarithms() -> Iterator[tuple[str, list[float], str]]:
    """An inverse of the middle of each of sixteen stretches of [0.671875, 1.34375), and its logarithm, in two parts."""
    inverse, head, tail = [], [], []
    for j in range(16):
        low = 0.671875 + j / 32 if j <= 10 else 1 + (2 * j - 21) / 32
        high = low + 1 / 32 if j < 10 else 1 + (2 * j - 19) / 32
        c = 1.0 if j == 10 else significant(Decimal(2) / Decimal(low + high), 20)
        inverse.append(c)
        head.append(on_grid(-Decimal(c).ln(), 42))
        tail.append(float(-Decimal(c).ln() - Decimal(head[-1])))
    yield "log_inverse", inverse, "of about the middle of a stretch, in 20 binary digits"
    yield "log_head", head, "minus the logarithm of that, a multiple of 2^-42"
    yield "log_tail", tail, "and what is missing"
    head_2 = on_grid(LN2, 42)
    yield "log_2", [head_2, float(LN2 - Decimal(head_2))], "log 2, likewise"
    p = polynomial(series(lambda n: Decimal((-1) ** n) / (n + 3)), -0.0297, 0.03126, 8)
    yield "log_rest", p, "(log(1 + r) - r + r^2/2) / r^3 for -0.0297 < r < 0.0313"


def powers() -> Iterator[tuple[str, list[float], str]]:
    """2**(i/16) in two parts, and what the exponential needs beside it."""
    roots = [(LN2 * i / 16).exp() for i in range(16)]
    head = [significant(root, 26) for root in roots]
    yield "power_head", head, "2^(i/16) in 26 binary digits"
    yield "power_tail", [float(root - Decimal(h)) for root, h in zip(roots, head, strict=True)], "and what is missing"
    step = LN2 / 16
    yield "power_step", [significant(step, 38), float(step - Decimal(significant(step, 38)))], "(log 2)/16, in two parts"
    q = polynomial(series(lambda n: Decimal(1) / math.factorial(n + 2)), -0.02167, 0.02167, 5)
    yield "power_rest", q, "(e^r - 1 - r) / r^2 for |r| < 0.0217"


def gammas() -> Iterator[tuple[str, list[float], str]]:
    """Stirling's series, and log gamma between its zeros and beyond."""
    yield "gamma_far", [float(b / (2 * j * (2 * j - 1))) for j, b in enumerate(bernoulli(8), 1)], "Stirling's series in 1/x"
    near = series(lambda n: 1 - EULER if n == 0 else (-1) ** (n + 1) * zeta_less_one(n + 1) / (n + 1))
    yield "gamma_near", polynomial(near, -0.75, 0.5, 24), "log gamma(2 + z) / z for -3/4 <= z <= 1/2"


def quantiles() -> Iterator[tuple[str, list[float], str]]:
    """Wichura's rational functions, highest power first: numerator, then denominator."""
    middle = [2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457]
    middle += [13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608]
    middle += [5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867]
    middle += [5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0]
    tail = [7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258]
    tail += [3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734]
    tail += [1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459]
    tail += [0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0]
    end = [2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093]
    end += [0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772]
    end += [2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4]
    end += [0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0]
    yield "normal_middle", middle, "normal quantile of |u - 1/2| <= 0.425, in 0.180625 - (u - 1/2)^2"
    yield "normal_tail", tail, "in r - 1.6, r = sqrt(-log(u)) <= 5"
    yield "normal_end", end, "in r - 5"


def lines(numbers: Iterable[float]) -> Iterator[str]:
    """Numbers in hexadecimal, four to a line."""
    written = [x.hex() for x in numbers]
    for i in range(0, len(written), 4):
        yield "    " + ", ".join(written[i : i + 4]) + ("," if i + 4 < len(written) else "")


def header() -> str:
    """The text of the header."""
    out = ["// The constants of elementary.h. Written by tables.py: change that instead."]
    out += ["#pragma once", '#include "portable.h"', ""]
    out += ["// A GPU reads its own copy.", "#if defined(__CUDA_ARCH__)", "#define HW_TABLE static __device__ const double"]
    out += ["#else", "#define HW_TABLE inline constexpr double", "#endif", ""]
    out += ["namespace hw {", "inline namespace HW_BUILD {", ""]
    for part in (logarithms, powers, gammas, quantiles):
        for name, numbers, meaning in part():
            out += [f"// {meaning}", f"alignas(64) HW_TABLE {name}[{len(numbers)}] = {{", *lines(numbers), "};"]
    out += ["", "}  // namespace HW_BUILD", "}  // namespace hw"]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("elementary_tables.h").write_text(header(), encoding="utf-8")
