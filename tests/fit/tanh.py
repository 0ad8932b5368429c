"""Fits the coefficients of core/src/tanh.rs: python3 tests/fit/tanh.py (numpy, scipy).

P in e^(2r) - 1 = 2r + r² P(r), |r| <= ln 2 / 4, is fitted for the least relative error by linear programming, one
coefficient after the other. Each coefficient is rounded to f32 before the remaining ones are fitted again.
"""

import numpy as np
from scipy.optimize import linprog

DEGREE = 4
EDGE = np.log(2) / 4 * 1.001

r = EDGE * np.cos(np.linspace(0, np.pi, 2001))
r = r[np.abs(r) > 1e-6]
exact = np.expm1(2 * r)
coefficients = []
for first in range(DEGREE + 1):
    powers = np.stack([r ** (2 + k) for k in range(first, DEGREE + 1)], 1)
    rest = exact - 2 * r - sum(c * r ** (2 + k) for k, c in enumerate(coefficients))
    a, b = powers / np.abs(exact)[:, None], rest / np.abs(exact)
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
