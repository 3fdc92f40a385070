"""Functions computed for arrays of any library: far from the usual arguments, and beside SciPy's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from scipy import special

from flowengine.kernels.common import gamma_derivatives
from flowengine.kernels.math import fitted
from flowengine.kernels.random.truncated import quantiles_between

#: (a, x, dP/da): by differences of P(a, x) in 40 digits.
_DERIVATIVES: Final = (
    (1e-09, 1.000000001, -0.21938393447659088),
    (1e-06, 1.1000011, -0.1859909789352029),
    (0.01, 1.1110000000000002, -0.18671609045522078),
    (0.1, 0.11000000000000001, -1.5631711119330167),
    (0.5, 1.35, -0.26975071440258386),
    (1.0, 2.0, -0.2208254262118595),
    (3.0, 0.30000000000000004, -0.008924824201723063),
    (20.0, 21.0, -0.08532202183081486),
    (100.0, 400.0, -1.5262225159317534e-72),
    (1000.0, 900.0, -6.245709035841566e-05),
    (10000.0, 9000.9, -2.4353100925218322e-26),
    (100000.0, 110001.1, -2.292517611891545e-207),
)

_NUMBERS: Final = np.concatenate(
    [np.linspace(0, 6, 601), 10.0 ** np.linspace(-8, 6, 141), [np.inf, np.nan, 1e300, 0.5, 1.5]]
)


def _is_near(found: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_derivatives_of_the_incomplete_gamma_function() -> None:
    a, x, wanted = np.array(_DERIVATIVES).T
    with np.errstate(all="ignore"):
        found = gamma_derivatives.igamma_grad_a(np, special, a, x)
        by_density = gamma_derivatives.sample_grad(np, special, a, x)
        density = np.exp((a - 1) * np.log(x) - x - special.gammaln(a))
    np.testing.assert_allclose(found, wanted, rtol=2e-10)
    np.testing.assert_allclose(by_density, -found / density, rtol=1e-9)


def test_blocks_of_it_have_the_bits_of_the_whole() -> None:
    rng = np.random.default_rng(3)
    a, x = rng.random(10_000) * 5 + 0.1, rng.random(10_000) * 5
    whole = gamma_derivatives.igamma_grad_a(np, special, a, x)
    parts = [
        gamma_derivatives.igamma_grad_a(np, special, a[i : i + 1000], x[i : i + 1000]) for i in (0, 4000)
    ]
    np.testing.assert_allclose(
        np.concatenate(parts), np.concatenate([whole[:1000], whole[4000:5000]]), rtol=1e-14
    )


def test_dawsons_integral_is_scipys() -> None:
    both = np.concatenate([_NUMBERS, -_NUMBERS])
    with np.errstate(all="ignore"):
        found, wanted = fitted.dawson(np, both), special.dawsn(both)
    np.testing.assert_allclose(found, wanted, rtol=5e-14)


def test_fresnels_integrals_are_scipys() -> None:
    both = np.concatenate([_NUMBERS, -_NUMBERS])
    with np.errstate(all="ignore"):
        found, wanted = fitted.fresnel_integrals(np, both), special.fresnel(both)
    np.testing.assert_allclose(found, wanted, rtol=3e-14)


def test_spences_integral_is_scipys() -> None:
    both = np.concatenate([_NUMBERS, [-1.0, 0.9999999, 1.0000001]])
    with np.errstate(all="ignore"):
        found, wanted = fitted.spence_integral(np, both), special.spence(both)
    np.testing.assert_allclose(found, wanted, rtol=2e-14)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1, 1), (-np.inf, 0.5), (3, 7), (30, 31), (8, np.inf), (-60, -50), (7.9, 8.5), (-30, 30)],
)
def test_quantiles_between_bounds_have_the_share_below_them(low: float, high: float) -> None:
    shares = np.linspace(0.0005, 0.9995, 1000)
    with np.errstate(all="ignore"):
        found = quantiles_between(np, special, shares, *np.array([low, high], np.float64))
    assert ((found >= low) & (found <= high)).all()
    # From the side on which less lies, so that logarithms of probabilities tell small ones apart.
    is_upper = low + high > 0
    bounds, numbers = ((-high, -low), -found) if is_upper else ((low, high), found)
    least, most = (special.log_ndtr(np.float64(bound)) for bound in bounds)
    share = (np.exp(special.log_ndtr(numbers) - most) - np.exp(least - most)) / -np.expm1(least - most)
    _is_near(1 - share if is_upper else share, shares, 1e-11)
