//! Which rows are read soon: a short queue between the plan, which knows, and the thread that tells the system.

const std = @import("std");
const assert = std.debug.assert;

const sync = @import("sync.zig");

/// Physical rows, the end exclusive.
pub const RowRange = struct { row_start: u64, row_end: u64 };

pub const Hint = struct {
    range: RowRange,
    /// Whether no batch is decoded before its bytes are there.
    holds: bool = false,
};

/// Hints that wait at most; two shard groups of ordinary size. The oldest go first: what is read next matters most.
pub const hints_max = 64;

/// The pipeline holds its mutex around each call.
pub const Hints = struct {
    /// A hint has come, or the pipeline stops.
    arrived: sync.Condition = .{},
    waiting: [hints_max]Hint = undefined,
    head: usize = 0,
    count: usize = 0,
    /// Those that hold, the one that is being read among them.
    holding: usize = 0,

    /// Drops the hint when too many wait: it only makes things faster.
    pub fn push(hints: *Hints, hint: Hint) void {
        if (hints.count == hints_max) return;
        hints.waiting[(hints.head + hints.count) % hints_max] = hint;
        hints.count += 1;
        hints.holding += @intFromBool(hint.holds);
    }

    pub fn pop(hints: *Hints) ?Hint {
        if (hints.count == 0) return null;
        const hint = hints.waiting[hints.head];
        hints.head = (hints.head + 1) % hints_max;
        hints.count -= 1;
        return hint;
    }

    /// A hint that was popped has been read.
    pub fn done(hints: *Hints, hint: Hint) void {
        hints.holding -= @intFromBool(hint.holds);
    }

    pub fn clear(hints: *Hints) void {
        while (hints.pop()) |hint| hints.done(hint);
    }
};

test "hints come out in order, and those beyond the bound are dropped" {
    var hints: Hints = .{};
    for (0..3) |round| {
        for (0..hints_max + 5) |index| {
            hints.push(.{ .range = .{ .row_start = index, .row_end = index + round }, .holds = index % 2 == 0 });
        }
        try std.testing.expectEqual(hints_max / 2, hints.holding);
        for (0..hints_max) |index| {
            const hint = hints.pop().?;
            try std.testing.expectEqual(RowRange{ .row_start = index, .row_end = index + round }, hint.range);
            hints.done(hint);
        }
        try std.testing.expectEqual(null, hints.pop());
        try std.testing.expectEqual(0, hints.holding);
        for (0..2) |_| hints.push(.{ .range = .{ .row_start = 1, .row_end = 2 }, .holds = true });
        const running = hints.pop().?;
        hints.clear();
        try std.testing.expectEqual(null, hints.pop());
        try std.testing.expectEqual(1, hints.holding);
        hints.done(running);
        try std.testing.expectEqual(0, hints.holding);
    }
}
