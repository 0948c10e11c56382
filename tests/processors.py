"""Print the processors for which the tests can be compiled and run here; the others are named on stderr."""

from __future__ import annotations

import sys

from llvmlite import binding

# What each needs beyond the one before it. As Numba's names, with no features but their own.
NEEDS = {
    "generic": (),
    "haswell": ("avx2", "fma", "bmi", "bmi2", "lzcnt", "movbe"),
    "skylake-avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "clwb"),
}


def runnable(features: dict[str, bool]) -> tuple[list[str], dict[str, list[str]]]:
    """The processors whose code runs on one with these features, and what is missing for the others."""
    able, unable = [], {}
    needed: tuple[str, ...] = ()
    for name, needs in NEEDS.items():
        needed += needs
        missing = [feature for feature in needed if not features.get(feature)]
        if missing:
            unable[name] = missing
        else:
            able.append(name)
    return able, unable


if __name__ == "__main__":
    able, unable = runnable(dict(binding.get_host_cpu_features()))
    for name, missing in unable.items():
        print(f"{name} is skipped: this machine has no {', '.join(missing)}", file=sys.stderr)
    print(*able)
