//! What bytes repeat where most of them equal the one before: such planes are runs, which mostly go up by one.
//!
//! A run is a literal and a match with the byte before; or a match with an earlier run of the same byte that takes the
//! rest of the run before and as much of what follows as is the same. Only runs are looked at, not each byte, and the
//! choice goes by estimates in bits.

const std = @import("std");
const assert = std.debug.assert;
const matches = @import("matches.zig");
const rfc = @import("symbols.zig");
const Token = matches.Token;

/// Bytes that are looked at together.
pub const segment_max = matches.segment_max;

/// Earlier runs of a byte that are looked at.
const depth = 4;
const none = std.math.maxInt(u16);

pub const Tables = struct {
    starts: [segment_max + 1]u16,
    /// The last run of each byte, and of each run the one before it of the same byte.
    last: [256]u16,
    before: [segment_max]u16,
};

const literal_cost: u32 = 7;
const repeat_cost: u32 = 8;
/// Besides a bit for each doubling of the distance.
const match_cost: u32 = 10;

/// Tokens in their making.
pub const Writing = struct {
    tokens: []Token,
    n: usize = 0,
    literals: u16 = 0,

    pub fn literal(self: *Writing, count: usize) void {
        self.literals += @intCast(count);
    }

    fn match(self: *Writing, length: usize, distance: usize) void {
        self.tokens[self.n] = .{ .literals = self.literals, .length = @intCast(length), .distance = @intCast(distance), .covered = 0 };
        self.n += 1;
        self.literals = 0;
    }

    /// `count` bytes that equal the one before.
    pub fn repeats(self: *Writing, count: usize) void {
        var left = count;
        while (left >= rfc.length_min) {
            var length: usize = @min(left, rfc.length_max);
            if (left > length and left - length < rfc.length_min) length = left - rfc.length_min;
            self.match(length, 1);
            left -= length;
        }
        self.literal(left);
    }

    pub fn done(self: *Writing) []Token {
        self.tokens[self.n] = .{ .literals = self.literals, .length = 0, .distance = 0, .covered = 0 };
        return self.tokens[0 .. self.n + 1];
    }
};

/// Tokens for all bytes.
pub fn parse(bytes: []const u8, tables: *Tables, tokens: []Token) []Token {
    assert(bytes.len <= segment_max and tokens.len > bytes.len);
    const n_runs = startsOf(bytes, &tables.starts);
    const starts = tables.starts[0 .. n_runs + 1];
    @memset(&tables.last, none);
    var writing: Writing = .{ .tokens = tokens };
    var rest: u32 = 0;
    var run: usize = 0; // the one that starts behind the rest
    while (run < n_runs) {
        const found = find(bytes, starts, run, rest, tables);
        if (found.length == 0) {
            writing.repeats(rest);
            writing.literal(1);
            rest = starts[run + 1] - starts[run] - 1;
            note(bytes, starts, run, tables);
            run += 1;
            continue;
        }
        writing.match(found.length, found.distance);
        const stop = starts[run] - rest + found.length;
        while (run < n_runs and starts[run] < stop) : (run += 1) note(bytes, starts, run, tables);
        rest = starts[run] - stop;
    }
    writing.repeats(rest);
    return writing.done();
}

const Found = struct { length: u32, distance: u32 };

inline fn note(bytes: []const u8, starts: []const u16, run: usize, tables: *Tables) void {
    const last = &tables.last[bytes[starts[run]]];
    tables.before[run] = last.*;
    last.* = @intCast(run);
}

/// The match from `rest` bytes before a run on that saves most, or none.
fn find(bytes: []const u8, starts: []const u16, run: usize, rest: u32, tables: *const Tables) Found {
    var best: Found = .{ .length = 0, .distance = 0 };
    var most: u32 = 0;
    var candidate = tables.last[bytes[starts[run]]];
    for (0..depth) |_| {
        if (candidate == none) break;
        const from: usize = candidate;
        candidate = tables.before[from];
        const reaches = rest == 0 or (from > 0 and bytes[starts[from] - 1] == bytes[starts[run] - 1] and starts[from] - starts[from - 1] >= rest);
        if (!reaches) continue;
        const distance: u32 = starts[run] - starts[from];
        const known = common(bytes, starts, run, from);
        const length = @min(rest + known.length, rfc.length_max);
        const saved = restCost(rest) + known.cost;
        const cost = match_cost + (32 - @clz(distance));
        if (length >= rfc.length_min and length == rest + known.length and saved > cost + most) {
            most = saved - cost;
            best = .{ .length = length, .distance = distance };
        }
    }
    return best;
}

const Common = struct { length: u32, cost: u32 };

/// How far two runs and those behind them are the same, and what so many bytes cost otherwise.
inline fn common(bytes: []const u8, starts: []const u16, one: usize, other: usize) Common {
    var found: Common = .{ .length = 0, .cost = 0 };
    var n: usize = 0;
    while (one + n + 1 < starts.len and bytes[starts[one + n]] == bytes[starts[other + n]]) : (n += 1) {
        const length: u32 = starts[one + n + 1] - starts[one + n];
        const its: u32 = starts[other + n + 1] - starts[other + n];
        found.length += @min(length, its);
        found.cost += literal_cost;
        if (its < length) {
            found.cost += restCost(length - 1) -| restCost(length - its);
            break;
        }
        found.cost += restCost(length - 1);
        if (its > length) break;
    }
    return found;
}

inline fn restCost(rest: u32) u32 {
    return if (rest < rfc.length_min) rest * literal_cost else repeat_cost;
}

/// Where each run starts, and where the last one stops; gives how many there are.
fn startsOf(bytes: []const u8, starts: []u16) usize {
    if (bytes.len == 0) {
        starts[0] = 0;
        return 0;
    }
    const lanes = 64;
    const Lanes = @Vector(lanes, u8);
    starts[0] = 0;
    var n: usize = 1;
    var at: usize = 1;
    while (at + lanes <= bytes.len) : (at += lanes) {
        const here: Lanes = bytes[at..][0..lanes].*;
        const before: Lanes = bytes[at - 1 ..][0..lanes].*;
        var differ: u64 = @bitCast(here != before);
        while (differ != 0) : (differ &= differ - 1) {
            starts[n] = @intCast(at + @ctz(differ));
            n += 1;
        }
    }
    while (at < bytes.len) : (at += 1) {
        if (bytes[at] == bytes[at - 1]) continue;
        starts[n] = @intCast(at);
        n += 1;
    }
    starts[n] = @intCast(bytes.len);
    return n;
}
