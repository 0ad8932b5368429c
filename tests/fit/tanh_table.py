"""Fits the table of cpu-fused/src/arch/x86_64/tanh_avx512.rs: python3 tests/fit/tanh_table.py (numpy, scipy).

tanh x = Σ cₖ tᵏ, t = y - left edge, y = 13/8 x + 1, on 32 segments of 0 <= x < 9.23, where tanh rounds to 1: eight
between 1 and 2, eight between 2 and 4, and so on, so that the segment follows from the bits of y below its leading one
and two bits of its exponent. The fit minimizes the absolute error by linear programming, one coefficient after the
other. Each coefficient is rounded to f32 before the remaining ones are fitted again. The first segment starts with the
coefficients 0 and 8/13, so that values near 0 keep their precision.
"""

import numpy as np
from scipy.optimize import linprog

DEGREE = 4
SCALE = 13 / 8


def fit(left, width):
    t = width * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 401)))
    exact = np.tanh((left - 1 + t) / SCALE)
    coefficients = [0.0, float(np.float32(1 / SCALE))] if left == 1 else []
    while len(coefficients) <= DEGREE:
        powers = np.stack([(t / width) ** k for k in range(len(coefficients), DEGREE + 1)], 1)
        rest = exact - sum(c * t**k for k, c in enumerate(coefficients))
        one = np.ones((len(t), 1))
        found = linprog(
            [0] * powers.shape[1] + [1],
            A_ub=np.block([[powers, -one], [-powers, -one]]) * 1e6,
            b_ub=np.concatenate([rest, -rest]) * 1e6,
            bounds=[(None, None)] * powers.shape[1] + [(0, None)],
            method="highs-ds",
        )
        coefficients.append(float(np.float32(found.x[0] / width ** len(coefficients))))
    return coefficients, np.abs(exact - sum(c * t**k for k, c in enumerate(coefficients))).max()


table, worst = np.zeros((DEGREE + 1, 32)), 0.0
for octave in range(4):
    for segment in range(8):
        y = 2.0**octave * (1 + segment / 8)
        # The two lowest bits of the exponent 127 + octave.
        index = (127 + octave) % 4 * 8 + segment
        table[:, index], error = fit(y, 2.0**octave / 8)
        worst = max(worst, error)
for row in table:
    print("    [" + ", ".join(str(np.float32(c)) for c in row) + "],")
print("error", worst)
