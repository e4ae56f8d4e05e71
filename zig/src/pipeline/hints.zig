//! Which rows are read soon: a short queue between the plan, which knows, and the thread that tells the system.

const std = @import("std");
const assert = std.debug.assert;

const sync = @import("sync.zig");

/// Physical rows, the end exclusive.
pub const RowRange = struct { row_start: u64, row_end: u64 };

/// Hints that wait at most; two shard groups of ordinary size. The oldest go first: what is read next matters most.
pub const hints_max = 64;

/// The pipeline holds its mutex around each call.
pub const Hints = struct {
    /// A hint has come, or the pipeline stops.
    arrived: sync.Condition = .{},
    ranges: [hints_max]RowRange = undefined,
    head: usize = 0,
    count: usize = 0,

    /// Drops the hint when too many wait: it only makes things faster.
    pub fn push(hints: *Hints, range: RowRange) void {
        if (hints.count == hints_max) return;
        hints.ranges[(hints.head + hints.count) % hints_max] = range;
        hints.count += 1;
    }

    pub fn pop(hints: *Hints) ?RowRange {
        if (hints.count == 0) return null;
        const range = hints.ranges[hints.head];
        hints.head = (hints.head + 1) % hints_max;
        hints.count -= 1;
        return range;
    }

    pub fn clear(hints: *Hints) void {
        hints.count = 0;
    }
};

test "hints come out in order, and those beyond the bound are dropped" {
    var hints: Hints = .{};
    for (0..3) |round| {
        for (0..hints_max + 5) |index| hints.push(.{ .row_start = index, .row_end = index + round });
        for (0..hints_max) |index| {
            try std.testing.expectEqual(RowRange{ .row_start = index, .row_end = index + round }, hints.pop().?);
        }
        try std.testing.expectEqual(null, hints.pop());
        hints.push(.{ .row_start = 1, .row_end = 2 });
        hints.clear();
        try std.testing.expectEqual(null, hints.pop());
    }
}
