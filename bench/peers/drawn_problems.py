"""Problems drawn at random, of sizes that a machine holds: what models have, or where a kernel family may be the fastest.
Needs no GPU and no torch."""

import math
from typing import NamedTuple

LARGEST_POINTS, LARGEST_VALUES = 6e7, 3e8
MOST_SMALL_POINTS = 1e6
BYTES = {"f32": 4, "f16": 2, "bf16": 2}


class Case(NamedTuple):
    work: dict  # as bench/workloads.json has them
    value_dtype: str
    input_mode: str
    math_mode: str


def log_uniform(rng, least, most):
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def fits(work):
    gathered = work["batch"] * work["queries"] * work["heads"] * sum(work["points"]) * max(1, work["channels"] / 32)
    values = work["batch"] * tokens_of(work["levels"]) * work["heads"] * work["channels"]
    return gathered <= LARGEST_POINTS and values <= LARGEST_VALUES


def tokens_of(levels):
    return sum(h * w for h, w in levels)


def pyramid(top, count):
    return [[max(1, top[0] >> level), max(1, top[1] >> level)] for level in range(count)]


def map_of(rng, pixels):
    """Height and width of about so many pixels, up to twice as wide as high."""
    height = math.sqrt(pixels / rng.uniform(1, 2))
    return max(1, round(height)), max(1, round(pixels / height))


def draw(rng):
    """A workload of what models have."""
    while True:
        L = rng.randint(1, 5)
        top = log_uniform(rng, 10, 130), log_uniform(rng, 10, 200)
        levels = pyramid(top, L)
        batch = rng.choice([1, 1, 2, 2, 4, 6, 8, 16, 32])
        heads, channels = rng.choice([(8, 32), (8, 32), (8, 32), (1, 32), (4, 32), (16, 16), (8, 64), (4, 64), (8, 16),
                                      (2, 128), (4, 128), (1, 256)])
        points = rng.choice([1, 2, 3, 4, 4, 4, 4, 6, 8, 8, 16])
        pattern = rng.choice(["uniform", "local"])
        queries = tokens_of(levels) if pattern == "local" else log_uniform(rng, 100, 90000)
        work = {"batch": batch, "heads": heads, "channels": channels, "levels": levels, "queries": queries,
                "points": [points] * L, "pattern": pattern}
        if fits(work):
            return work


def draw_small(rng):
    """A workload of what decoders have: few queries, each of which looks anywhere."""
    while True:
        levels = pyramid((log_uniform(rng, 20, 120), log_uniform(rng, 20, 180)), rng.randint(1, 4))
        heads, channels = rng.choice([(8, 32), (8, 32), (8, 32), (16, 16), (4, 64), (8, 64)])
        work = {"batch": rng.choice([1, 1, 1, 2, 2, 4, 8]), "heads": heads, "channels": channels, "levels": levels,
                "queries": log_uniform(rng, 50, 1200), "points": [rng.choice([1, 2, 4, 4, 4, 8])] * len(levels),
                "pattern": "uniform"}
        if work["batch"] * work["queries"] * heads * sum(work["points"]) <= MOST_SMALL_POINTS:
            return work


def near_cluster(rng):
    """Scattered points, and levels that one to three blocks hold: all of them, or all but the finest one. Few heads, since they
    take shared memory. Numbers of points and channels for which `persistent` caches no levels, too."""
    dtype, math_mode = rng.choice([("f16", "fast")] * 3 + [("f16", "accurate"), ("bf16", "accurate"), ("f32", "accurate")])
    channels = 32 if dtype == "f32" else rng.choice([32, 32, 64])
    L, P = rng.choice([1, 1, 2, 3, 4]), rng.choice([1, 2, 3, 4, 6, 8, 8, 12, 16])
    kept = log_uniform(rng, 60_000, 500_000) / (channels * BYTES[dtype])
    beside_finest = L > 1 and rng.random() < 0.6
    # Each level has a quarter of the pixels of the one before.
    pixels = kept / sum(0.25**level for level in range(1 if beside_finest else 0, L))
    work = {"batch": rng.choice([8, 12, 16, 24, 32, 48]), "heads": rng.choice([1, 1, 1, 2, 4]), "channels": channels,
            "levels": pyramid(map_of(rng, pixels), L), "queries": log_uniform(rng, 1000, 40000), "points": [P] * L,
            "pattern": "uniform"}
    return Case(work, dtype, "sampled", math_mode)


def near_tma(rng):
    """Encoders with points around their queries, of which windows hold most, with sums of float16 and sampled input: all that a
    plan lets windows take."""
    heads, channels = rng.choice([(8, 32)] * 3 + [(16, 32), (4, 32), (1, 32)])
    L = rng.randint(1, 4)
    levels = pyramid(map_of(rng, log_uniform(rng, 2000, 40000)), L)
    work = {"batch": rng.choice([1, 2, 2, 4, 8]), "heads": heads, "channels": channels, "levels": levels,
            "queries": tokens_of(levels), "points": [rng.choice([4, 4, 8])] * L, "pattern": "local"}
    return Case(work, "f16", "sampled", "fast")


def near_pipeline(rng):
    """What latency binds: few rows of many points, each far from the next; and more points a head than `persistent` takes."""
    heads, channels = rng.choice([(8, 8), (8, 16), (8, 32), (1, 32), (4, 64), (8, 64), (2, 128), (4, 128), (1, 256), (4, 256)])
    L = rng.randint(1, 5)
    most = rng.choice([16, 64, 256, 512])
    P = max(1, log_uniform(rng, most // 2 + 1, most) // L)
    work = {"batch": rng.choice([1, 1, 2, 4, 8]), "heads": heads, "channels": channels,
            "levels": pyramid(map_of(rng, log_uniform(rng, 4000, 250000)), L), "queries": log_uniform(rng, 16, 4000),
            "points": [P] * L, "pattern": "uniform"}
    return Case(work, rng.choice(["f16", "bf16", "f32"]), rng.choice(["sampled", "sampled", "fused2"]), "accurate")


NEAR = {"cluster": near_cluster, "tma": near_tma, "pipeline": near_pipeline}


def draw_near(rng, family):
    """A problem that the family takes where it has a kernel for its type, and where it may be the fastest."""
    while True:
        case = NEAR[family](rng)
        if fits(case.work):
            return case
