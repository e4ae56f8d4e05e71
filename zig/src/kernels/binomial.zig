//! Draws from a binomial distribution.
//!
//! Where the mean is below 10 the draw is by inversion, else by BTPE: V. Kachitvichyanukul and B. W. Schmeiser,
//! "Binomial random variate generation", Communications of the ACM 31 (1988), with the signs of its last test that are
//! used since. How the numbers of the generator become uniform ones, in which order they are used and how each term is
//! rounded is as in version 0.4 of Rust's crate `rand_distr`: the same generator gives the same draws.

const std = @import("std");
const rng = @import("../rng.zig");

const assert = std.debug.assert;

/// From this mean on draws are by BTPE, which is made for it.
const rejection_mean_min = 10;

/// A draw from Binomial(n, p), 0 <= p <= 1.
pub fn draw(generator: *rng.Generator, n: u64, p: f64) u64 {
    assert(p >= 0 and p <= 1);
    if (p == 0) return 0;
    if (p == 1) return n;
    if (p > 0.5) return n - drawRare(generator, n, 1 - p);
    return drawRare(generator, n, p);
}

fn drawRare(generator: *rng.Generator, n: u64, p: f64) u64 {
    const trials: f64 = @floatFromInt(n);
    if (trials * p < rejection_mean_min) return byInversion(generator, n, p);
    const hat: Hat = .init(trials, p);
    const successes: u64 = std.math.lossyCast(u64, hat.draw(generator));
    return @min(successes, n);
}

/// Takes probabilities from a uniform number, from that of 0 on, as long as it exceeds them.
fn byInversion(generator: *rng.Generator, n: u64, p: f64) u64 {
    const odds = p / (1 - p);
    const scaled_odds = @as(f64, @floatFromInt(n + 1)) * odds;
    const none = power(1 - p, n);
    while (true) {
        var uniform = generator.uniform();
        var probability = none;
        var successes: u64 = 0;
        while (uniform > probability) {
            // Rounding may leave a rest behind the last term; it is about 1e-16, and drawn anew.
            if (successes == n) break;
            uniform -= probability;
            successes += 1;
            probability *= scaled_odds / @as(f64, @floatFromInt(successes)) - odds;
        } else return successes;
    }
}

/// By squaring.
fn power(base: f64, exponent: u64) f64 {
    var result: f64 = 1;
    var square = base;
    var left = exponent;
    while (true) {
        if (left & 1 == 1) result *= square;
        left >>= 1;
        if (left == 0) return result;
        square *= square;
    }
}

/// What BTPE draws from before it accepts or rejects: a triangle around the mode between two parallelograms, and a tail
/// of an exponential function on each side. Names are those of the paper.
const Hat = struct {
    n: f64,
    p: f64,
    q: f64,
    npq: f64,
    /// The mode.
    m: f64,
    /// Middle, left and right end of the triangle.
    x_m: f64,
    x_l: f64,
    x_r: f64,
    c: f64,
    lambda_l: f64,
    lambda_r: f64,
    /// The areas up to the end of the triangle, the parallelograms, the left and the right tail.
    p1: f64,
    p2: f64,
    p3: f64,
    p4: f64,

    fn init(n: f64, p: f64) Hat {
        const q = 1 - p;
        const np = n * p;
        const npq = np * q;
        const f_m = np + p;
        const m = @trunc(f_m);
        const p1 = @floor(2.195 * @sqrt(npq) - 4.6 * q) + 0.5;
        const x_m = m + 0.5;
        const x_l = x_m - p1;
        const x_r = x_m + p1;
        const c = 0.134 + 20.5 / (15.3 + m);
        const p2 = p1 * (1 + 2 * c);
        const lambda_l = rate((f_m - x_l) / (f_m - x_l * p));
        const lambda_r = rate((x_r - f_m) / (x_r * q));
        const p3 = p2 + c / lambda_l;
        return .{
            .n = n,
            .p = p,
            .q = q,
            .npq = npq,
            .m = m,
            .x_m = x_m,
            .x_l = x_l,
            .x_r = x_r,
            .c = c,
            .lambda_l = lambda_l,
            .lambda_r = lambda_r,
            .p1 = p1,
            .p2 = p2,
            .p3 = p3,
            .p4 = p3 + c / lambda_r,
        };
    }

    fn rate(a: f64) f64 {
        return a * (1 + 0.5 * a);
    }

    fn draw(hat: *const Hat, generator: *rng.Generator) f64 {
        while (true) {
            const u = uniform52(generator) * hat.p4;
            const v = uniform52(generator);
            // step 1: the triangle lies below the distribution as a whole
            if (u <= hat.p1) return @trunc(hat.x_m - hat.p1 * v + u);
            const found = hat.propose(u, v) orelse continue;
            if (hat.accepts(found)) return found.y;
        }
    }

    /// `v` is the height at which `y` is tried, as a part of the mode's.
    const Proposal = struct { y: f64, v: f64 };

    /// Steps 2 to 4; null where the place is outside.
    fn propose(hat: *const Hat, u: f64, v: f64) ?Proposal {
        if (u <= hat.p2) {
            const x = hat.x_l + (u - hat.p1) / hat.c;
            const height = v * hat.c + 1 - @abs(x - hat.x_m) / hat.p1;
            return if (height > 1) null else .{ .y = @trunc(x), .v = height };
        }
        if (u <= hat.p3) {
            const y = @trunc(hat.x_l + @log(v) / hat.lambda_l);
            return if (y < 0) null else .{ .y = y, .v = v * ((u - hat.p2) * hat.lambda_l) };
        }
        const y = @trunc(hat.x_r - @log(v) / hat.lambda_r);
        return if (y > hat.n) null else .{ .y = y, .v = v * ((u - hat.p3) * hat.lambda_r) };
    }

    /// Step 5. Far from the mode a squeeze decides mostly.
    fn accepts(hat: *const Hat, found: Proposal) bool {
        const k = @abs(found.y - hat.m);
        if (!(k > 20 and k < 0.5 * hat.npq - 1)) return found.v <= hat.ratioToMode(found.y);
        const spread = (k / hat.npq) * ((k * (k / 3 + 0.625) + 1.0 / 6.0) / hat.npq + 0.5);
        const normal = -0.5 * k * k / hat.npq;
        const height = @log(found.v);
        if (height < normal - spread) return true;
        if (height > normal + spread) return false;
        return height <= hat.logRatioToMode(found.y);
    }

    /// The probability of y as a part of the mode's, factor by factor.
    fn ratioToMode(hat: *const Hat, y: f64) f64 {
        const odds = hat.p / hat.q;
        const scaled_odds = odds * (hat.n + 1);
        var ratio: f64 = 1;
        var i = @min(hat.m, y);
        var left = @abs(y - hat.m);
        while (left >= 1) : (left -= 1) {
            i += 1;
            const step = scaled_odds / i - odds;
            if (y > hat.m) ratio *= step else ratio /= step;
        }
        return ratio;
    }

    /// The logarithm of the same, by Stirling's formula.
    fn logRatioToMode(hat: *const Hat, y: f64) f64 {
        const x1 = y + 1;
        const f1 = hat.m + 1;
        const z = hat.n + 1 - hat.m;
        const w = hat.n - y + 1;
        return hat.x_m * @log(f1 / x1) + (hat.n - hat.m + 0.5) * @log(z / w) +
            (y - hat.m) * @log(w * hat.p / (x1 * hat.q)) + stirling(f1) + stirling(z) - stirling(x1) - stirling(w);
    }
};

fn stirling(x: f64) f64 {
    const square = x * x;
    return (13860.0 - (462.0 - (132.0 - (99.0 - 140.0 / square) / square) / square) / square) / x / 166320.0;
}

/// Uniform in [0, 1), a multiple of 2^-52.
fn uniform52(generator: *rng.Generator) f64 {
    const steps: f64 = @floatFromInt(generator.next64() >> 12);
    return steps * 0x1p-52;
}

const testing = std.testing;

test "the same generator gives the draws of rand_distr 0.4" {
    // printed by a program of that crate and rand_chacha 0.3: `Binomial::new(n, p)` with `ChaCha8Rng::seed_from_u64(seed)`
    const Case = struct { seed: u64, n: u64, p: f64, draws: [8]u64 };
    for ([_]Case{
        .{ .seed = 1, .n = 100, .p = 0.3, .draws = .{ 25, 30, 27, 30, 26, 33, 25, 30 } },
        .{ .seed = 2, .n = 40, .p = 0.25, .draws = .{ 14, 13, 12, 10, 7, 9, 5, 11 } },
        .{ .seed = 3, .n = 1000, .p = 0.97, .draws = .{ 968, 964, 967, 966, 978, 983, 970, 962 } },
        .{ .seed = 4, .n = 100_000, .p = 0.5, .draws = .{ 50308, 50077, 49789, 49868, 49963, 50063, 49890, 50048 } },
        .{ .seed = 5, .n = 1_000_000, .p = 0.01, .draws = .{ 9905, 10060, 10230, 9992, 9898, 9942, 9891, 9892 } },
        .{ .seed = 6, .n = 40, .p = 0.5, .draws = .{ 18, 21, 20, 17, 11, 26, 20, 26 } },
        // by inversion
        .{ .seed = 7, .n = 20, .p = 0.25, .draws = .{ 3, 3, 6, 6, 5, 4, 2, 7 } },
        .{ .seed = 8, .n = 1000, .p = 0.005, .draws = .{ 2, 6, 7, 5, 5, 7, 6, 7 } },
        .{ .seed = 9, .n = 50, .p = 0.98, .draws = .{ 50, 48, 50, 50, 49, 50, 49, 50 } },
    }) |case| {
        var generator: rng.Generator = .init(case.seed);
        for (case.draws) |expected| try testing.expectEqual(expected, draw(&generator, case.n, case.p));
    }
}

test "draws have the mean and the variance of a binomial, by inversion and BTPE, on both sides of a half" {
    const Case = struct { n: u64, p: f64 };
    for ([_]Case{
        .{ .n = 1, .p = 0.3 },       .{ .n = 20, .p = 0.25 },   .{ .n = 20, .p = 0.9 },    .{ .n = 40, .p = 0.5 },
        .{ .n = 100_000, .p = 0.5 }, .{ .n = 1000, .p = 0.02 }, .{ .n = 1000, .p = 0.97 }, .{ .n = 1 << 40, .p = 1e-9 },
    }) |case| {
        var generator: rng.Generator = .init(case.n);
        const draws = 20_000;
        const n: f64 = @floatFromInt(case.n);
        const mean = n * case.p;
        const variance = mean * (1 - case.p);
        var sum: f64 = 0;
        var squares: f64 = 0;
        for (0..draws) |_| {
            const drawn = draw(&generator, case.n, case.p);
            try testing.expect(drawn <= case.n);
            const distance = @as(f64, @floatFromInt(drawn)) - mean;
            sum += distance;
            squares += distance * distance;
        }
        // five standard errors of the mean; the variance of the variance is about 2 v^2, and v where v is small
        try testing.expect(@abs(sum / draws) < 5 * @sqrt(variance / draws));
        try testing.expect(@abs(squares / draws - variance) < 5 * @sqrt((2 * variance * variance + variance) / draws));
    }
}

fn logFactorial(n: usize) f64 {
    var sum: f64 = 0;
    for (1..n + 1) |k| sum += @log(@as(f64, @floatFromInt(k)));
    return sum;
}

test "the frequencies of each outcome are those of the binomial, by BTPE" {
    const n = 30;
    const p = 0.4; // mean 12
    const draws = 200_000;
    var seen: [n + 1]f64 = @splat(0);
    var generator: rng.Generator = .init(11);
    for (0..draws) |_| seen[draw(&generator, n, p)] += 1;
    var chi_square: f64 = 0;
    var cells: f64 = 0;
    for (seen, 0..) |count, k| {
        const at: f64 = @floatFromInt(k);
        const logarithm = logFactorial(n) - logFactorial(k) - logFactorial(n - k) + at * @log(p) + (n - at) * @log(1.0 - p);
        const expected = @exp(logarithm) * draws;
        if (expected < 10) continue;
        chi_square += (count - expected) * (count - expected) / expected;
        cells += 1;
    }
    // the mean is cells - 1, the standard deviation the root of twice that
    try testing.expect(chi_square < cells + 5 * @sqrt(2 * cells));
}
