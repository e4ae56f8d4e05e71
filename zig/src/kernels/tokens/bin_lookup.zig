//! The bins of a row by the codes of its values. Compiled once per CPU level.

const std = @import("std");
const draws = @import("draws.zig");
const rng = @import("../../rng.zig");

/// How many edges are not above a value, and how many are below it.
pub const Bounds = packed struct(u32) { left: u16, right: u16 };

/// Which of the two, if not a draw between them.
pub const Side = enum(u32) { left = 0, right = 1 };

const lanes = 8;
const Bits = @Vector(lanes, u32);
const Doubles = @Vector(lanes, f64);

/// `bounds` by code; those of code 0 are 0.
pub fn lookUp(codes: []const u32, bounds: [*]const Bounds, side: Side, out: [*]i32) void {
    switch (side) {
        .left => for (codes, out) |code, *bin| {
            bin.* = bounds[code].left;
        },
        .right => for (codes, out) |code, *bin| {
            bin.* = bounds[code].right;
        },
    }
}

/// ceil(u * (right - left) + left), with the next draw u of the stream for each code that is not 0; there are
/// `n_drawn` of them.
pub fn draw(stream: u64, codes: []const u32, bounds: [*]const Bounds, n_drawn: usize, out: [*]i32) void {
    const key = rng.Generator.keyOf(stream);
    var words: [draws.chunk_draws]u64 = undefined;
    var first: u64 = 0;
    var at: usize = 0;
    while (first < n_drawn) : (first += draws.chunk_draws) {
        const count = @min(draws.chunk_draws, n_drawn - first);
        draws.words(key, first, words[0..count]);
        if (n_drawn == codes.len) {
            drawEach(words[0..count], codes[at..], bounds, out + at);
            at += count;
            continue;
        }
        var used: usize = 0;
        while (used < count) : (at += 1) {
            out[at] = drawnBin(words[used], bounds[codes[at]]);
            used += @intFromBool(codes[at] != 0);
        }
    }
    @memset(out[at..codes.len], 0);
}

/// A draw for each code.
fn drawEach(words: []const u64, codes: []const u32, bounds: [*]const Bounds, out: [*]i32) void {
    var at: usize = 0;
    while (at + lanes <= words.len) : (at += lanes) {
        var both: [lanes]u32 = undefined;
        inline for (&both, 0..) |*entry, lane| entry.* = @bitCast(bounds[codes[at + lane]]);
        const left: Doubles = @floatFromInt(@as(Bits, both) & @as(Bits, @splat(0xffff)));
        const right: Doubles = @floatFromInt(@as(Bits, both) >> @splat(16));
        const steps: Doubles = @floatFromInt(@as(@Vector(lanes, u64), words[at..][0..lanes].*) >> @splat(11));
        const uniforms = steps * @as(Doubles, @splat(0x1p-53));
        const bins: @Vector(lanes, i32) = @intFromFloat(@ceil(uniforms * (right - left) + left));
        out[at..][0..lanes].* = bins;
    }
    for (words[at..], codes[at..words.len], out[at..words.len]) |word, code, *bin| bin.* = drawnBin(word, bounds[code]);
}

inline fn drawnBin(word: u64, between: Bounds) i32 {
    const left: f64 = @floatFromInt(between.left);
    const right: f64 = @floatFromInt(between.right);
    return @intFromFloat(@ceil(draws.uniformOf(word) * (right - left) + left));
}

test "drawn bins are those of one draw after the other" {
    const n_values = 1300;
    var random: rng.Generator = .init(8);
    var bounds: [40]Bounds = undefined;
    for (&bounds) |*entry| entry.* = .{ .left = @intCast(random.below(1 << 16)), .right = @intCast(random.below(1 << 16)) };
    bounds[0] = .{ .left = 0, .right = 0 };
    var codes: [n_values]u32 = undefined;
    for ([_]u32{ 0, 1 }) |least| {
        for (&codes) |*code| code.* = least + random.below(40 - least);
        for ([_]usize{ 0, 1, 7, 8, 9, 511, 512, 513, 1024, n_values }) |length| {
            var n_drawn: usize = 0;
            for (codes[0..length]) |code| n_drawn += @intFromBool(code != 0);
            var out: [n_values + 1]i32 = @splat(-9);
            draw(5, codes[0..length], &bounds, n_drawn, &out);
            var generator: rng.Generator = .init(5);
            for (codes[0..length], out[0..length]) |code, bin| {
                if (code == 0) {
                    try std.testing.expectEqual(0, bin);
                    continue;
                }
                const left: f64 = @floatFromInt(bounds[code].left);
                const right: f64 = @floatFromInt(bounds[code].right);
                const expected: i32 = @intFromFloat(@ceil(generator.uniform() * (right - left) + left));
                try std.testing.expectEqual(expected, bin);
            }
            try std.testing.expectEqual(-9, out[length]);
            lookUp(codes[0..length], &bounds, .right, &out);
            for (codes[0..length], out[0..length]) |code, bin| try std.testing.expectEqual(bounds[code].right, bin);
            lookUp(codes[0..length], &bounds, .left, &out);
            for (codes[0..length], out[0..length]) |code, bin| try std.testing.expectEqual(bounds[code].left, bin);
        }
    }
}
