//! Where the columns of a matrix go: to the columns of batches that several matrices share.
//!
//! A map from columns to output columns, of which any number may be left out. Where it ascends, a row's output ascends
//! as its columns do; where it does not, rows are sorted; where several columns share an output column, their values
//! are added before anything else happens to them.

const std = @import("std");
const dense_plan = @import("dense_plan.zig");
const errors = @import("../errors.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const DensePlan = dense_plan.DensePlan;
const Failure = errors.Failure;
const Report = errors.Report;

pub const not_kept: i32 = -1;

pub const Order = enum {
    /// Output columns ascend with the columns.
    ascending,
    /// Each output column comes from one column, in any order.
    mixed,
    /// Several columns share one.
    shared,
};

pub const Columns = struct {
    plan: DensePlan,
    order: Order,
    n_cols: u32,

    /// `map` has n_cols entries below n_output, or `not_kept`; null for each column as itself. The options have no
    /// panel.
    pub fn init(
        allocator: Allocator,
        n_cols: u32,
        map: ?[]const i32,
        n_output: u32,
        options: dense_plan.DenseOptions,
        report: *Report,
    ) Failure!Columns {
        if (options.panel != null) return report.fail(error.BadArgument, "a map of columns excludes a panel", .{});
        const entries = map orelse {
            if (n_output < n_cols) return report.fail(
                error.BadArgument,
                "{d} columns without a map cannot be {d} output columns",
                .{ n_cols, n_output },
            );
            return .{ .plan = try .initMapped(allocator, n_cols, null, n_output, options, report), .order = .ascending, .n_cols = n_cols };
        };
        assert(entries.len == n_cols);
        for (entries, 0..) |output, column| {
            if (output >= not_kept and output < n_output) continue;
            return report.fail(error.OutOfRange, "column {d} goes to {d}, but there are {d} output columns", .{
                column, output, n_output,
            });
        }
        const order = try orderOf(allocator, entries);
        return .{
            .plan = try .initMapped(allocator, n_cols, entries, n_output, options, report),
            .order = order,
            .n_cols = n_cols,
        };
    }

    pub fn deinit(self: *Columns) void {
        self.plan.deinit();
    }

    pub fn isMapped(self: *const Columns) bool {
        return self.plan.row_plan.slots != null;
    }
};

fn orderOf(allocator: Allocator, map: []const i32) Failure!Order {
    var last: i32 = not_kept;
    for (map) |output| {
        if (output == not_kept) continue;
        if (output <= last) break;
        last = output;
    } else return .ascending;
    const seen = try allocator.alloc(bool, @intCast(std.mem.max(i32, map) + 1));
    defer allocator.free(seen);
    @memset(seen, false);
    for (map) |output| {
        if (output == not_kept) continue;
        if (seen[@intCast(output)]) return .shared;
        seen[@intCast(output)] = true;
    }
    return .mixed;
}

const testing = std.testing;

test "orders of maps" {
    try testing.expectEqual(Order.ascending, try orderOf(testing.allocator, &.{ -1, 0, -1, 2 }));
    try testing.expectEqual(Order.ascending, try orderOf(testing.allocator, &.{ -1, -1 }));
    try testing.expectEqual(Order.mixed, try orderOf(testing.allocator, &.{ 2, -1, 0 }));
    try testing.expectEqual(Order.shared, try orderOf(testing.allocator, &.{ 1, 1 }));
    try testing.expectEqual(Order.shared, try orderOf(testing.allocator, &.{ 1, 0, 1 }));
}

test "maps that lead nowhere are refused" {
    var report: Report = .{};
    try testing.expectError(error.OutOfRange, Columns.init(testing.allocator, 2, &.{ 0, 2 }, 2, .{}, &report));
    try testing.expectEqualStrings("column 1 goes to 2, but there are 2 output columns", report.messageText());
    try testing.expectError(error.OutOfRange, Columns.init(testing.allocator, 1, &.{-2}, 2, .{}, &report));
    try testing.expectError(error.BadArgument, Columns.init(testing.allocator, 3, null, 2, .{}, &report));
}
