"""Fits the coefficients of cpu-fused/src/arch/x86_64/curves_avx2.rs: python3 tests/fit/exp.py (numpy, scipy).

P in e^(2r) = 1 + r P(r), |r| <= ln 2 / 4, is fitted for the least relative error by linear programming, one coefficient
after the other. Each coefficient is rounded to f32 before the remaining ones are fitted again.
"""

import numpy as np
from scipy.optimize import linprog

TERMS = 5
EDGE = np.log(2) / 4 * 1.002

r = EDGE * np.cos(np.linspace(0, np.pi, 1001))
r = r[np.abs(r) > 1e-6]
exact = np.exp(2 * r)
coefficients = []
for first in range(1, TERMS + 1):
    powers = np.stack([r**k for k in range(first, TERMS + 1)], 1)
    rest = exact - 1 - sum(c * r ** (1 + k) for k, c in enumerate(coefficients))
    a, b = powers / exact[:, None], rest / exact
    size = np.abs(a).max(0)
    a /= size
    one = np.ones((len(b), 1))
    n = a.shape[1]
    found = linprog(
        [0] * n + [1],
        A_ub=np.block([[a, -one], [-a, -one]]),
        b_ub=np.concatenate([b, -b]),
        bounds=[(None, None)] * n + [(0, None)],
        method="highs-ipm",
    )
    coefficients.append(float(np.float32(found.x[0] / size[0])))
    error = found.x[-1]
print("coefficients", [str(np.float32(c)) for c in coefficients], "relative error", error)
