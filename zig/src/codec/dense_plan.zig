//! What a batch takes of the rows of a matrix, and what becomes of the values: all genes, a panel of them or a map to
//! other columns, and the transform.

const std = @import("std");
const dense = @import("../kernels/dense.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const panel_kernel = @import("../kernels/panel.zig");
const transform_kernel = @import("../kernels/transform.zig");
const Matrix = @import("matrix.zig").Matrix;

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Report = errors.Report;

pub const DenseOptions = struct {
    normalize: bool = false,
    log1p: bool = false,
    target_sum: f64 = 1e4,
    /// The overdispersion of PFlog, which goes without the other two; 0 for none.
    pflog_alpha: f64 = 0,
    /// Ascending distinct columns; null for all.
    panel: ?[]const u32 = null,
    output: emit.Output = .f32,
};

/// What a dense row consists of; read-only once made, shared by threads.
pub const DensePlan = struct {
    allocator: Allocator,
    n_output: u32,
    members: []u32,
    slots: []u32,
    row_plan: dense.DenseRowPlan,

    pub fn init(allocator: Allocator, matrix: *const Matrix, options: DenseOptions, report: *Report) Failure!DensePlan {
        try checkTransform(options, report);
        const panel = options.panel orelse return allocate(allocator, matrix.n_cols, false, matrix.n_cols, options);
        try checkPanel(panel, matrix.n_cols, report);
        const plan = try allocate(allocator, matrix.n_cols, true, @intCast(panel.len), options);
        for (panel, 0..) |column, slot| plan.keep(column, @intCast(slot));
        return plan;
    }

    /// The output column of each column, negative for those that are left out; null for each column as itself. The
    /// options have no panel.
    pub fn initMapped(
        allocator: Allocator,
        n_cols: u32,
        map: ?[]const i32,
        n_output: u32,
        options: DenseOptions,
        report: *Report,
    ) Failure!DensePlan {
        assert(options.panel == null);
        try checkTransform(options, report);
        const plan = try allocate(allocator, n_cols, map != null, n_output, options);
        if (map) |entries| for (entries, 0..) |output, column| {
            if (output >= 0) plan.keep(@intCast(column), @intCast(output));
        };
        return plan;
    }

    fn allocate(allocator: Allocator, n_cols: u32, has_slots: bool, n_output: u32, options: DenseOptions) Failure!DensePlan {
        const members = try allocator.alloc(u32, if (has_slots) panel_kernel.wordCount(n_cols) else 0);
        errdefer allocator.free(members);
        const slots = try allocator.alloc(u32, if (has_slots) n_cols else 0);

        // slots are read where a gene is a member: the others cost no memory until they are written
        @memset(members, 0);
        return .{
            .allocator = allocator,
            .n_output = n_output,
            .members = members,
            .slots = slots,
            .row_plan = .{
                .transform = .{
                    .normalize = options.normalize,
                    .log1p = options.log1p or options.pflog_alpha != 0,
                    .target_sum = options.target_sum,
                    .pflog_scale = 4 * options.pflog_alpha,
                },
                .n_cols = n_cols,
                .n_output = n_output,
                .members = if (has_slots) members.ptr else null,
                .slots = if (has_slots) slots.ptr else null,
                .output = options.output,
            },
        };
    }

    /// Whether a map or panel keeps a column.
    pub fn keeps(self: *const DensePlan, column: u32) bool {
        return panel_kernel.isMember(self.members.ptr, column) != 0;
    }

    fn keep(self: *const DensePlan, column: u32, output: u32) void {
        panel_kernel.addMember(self.members, column);
        self.slots[column] = output;
    }

    pub fn deinit(self: *DensePlan) void {
        self.allocator.free(self.members);
        self.allocator.free(self.slots);
    }

    pub fn rowBytes(self: *const DensePlan) usize {
        return self.n_output * self.row_plan.output.bytes();
    }
};

fn checkTransform(options: DenseOptions, report: *Report) Failure!void {
    if (options.normalize) try checkTargetSum(options.target_sum, report);
    if (options.pflog_alpha != 0) try checkPflog(options, report);
}

pub fn checkTargetSum(target_sum: f64, report: *Report) Failure!void {
    if (transform_kernel.isScale(target_sum)) return;
    return report.fail(error.BadArgument, "target_sum is {d}; it must be finite and positive, as a float32", .{target_sum});
}

fn checkPflog(options: DenseOptions, report: *Report) Failure!void {
    if (!transform_kernel.isScale(options.pflog_alpha)) {
        return report.fail(error.BadArgument, "pflog_alpha is {d}; it must be finite and positive, as a float32", .{options.pflog_alpha});
    }
    if (options.normalize or options.log1p) {
        return report.fail(error.BadArgument, "pflog_alpha excludes the flags to normalise and to take logarithms", .{});
    }
}

fn checkPanel(panel: []const u32, n_cols: u32, report: *Report) Failure!void {
    for (panel, 0..) |column, position| {
        if (column >= n_cols) {
            return report.fail(error.OutOfRange, "the panel's gene {d} (position {d}) is out of range: the matrix has {d} genes", .{
                column, position, n_cols,
            });
        }
        if (position > 0 and column <= panel[position - 1]) {
            return report.fail(error.BadArgument, "the panel must be strictly ascending, but position {d} holds {d} after {d}", .{
                position, column, panel[position - 1],
            });
        }
    }
}

const testing = std.testing;

test "a map keeps columns and says where they go" {
    var report: Report = .{};
    var map: [70]i32 = @splat(-1);
    map[33] = 5;
    map[34] = 0;
    map[69] = 5;
    var plan: DensePlan = try .initMapped(testing.allocator, map.len, &map, 6, .{ .output = .f16 }, &report);
    defer plan.deinit();
    try testing.expectEqual(6, plan.n_output);
    try testing.expectEqual(12, plan.rowBytes());
    for (0..map.len) |column| {
        const output: ?u32 = switch (column) {
            33, 69 => 5,
            34 => 0,
            else => null,
        };
        try testing.expectEqual(output != null, plan.keeps(@intCast(column)));
        if (output) |expected| try testing.expectEqual(expected, plan.slots[column]);
    }
}

test "panels that are not ascending columns of the matrix are refused" {
    var report: Report = .{};
    try checkPanel(&.{ 0, 3, 9 }, 10, &report);
    try checkPanel(&.{}, 10, &report);
    try testing.expectError(error.OutOfRange, checkPanel(&.{ 0, 10 }, 10, &report));
    try testing.expectEqualStrings("the panel's gene 10 (position 1) is out of range: the matrix has 10 genes", report.messageText());
    try testing.expectError(error.BadArgument, checkPanel(&.{ 3, 3 }, 10, &report));
    try testing.expectEqualStrings("the panel must be strictly ascending, but position 1 holds 3 after 3", report.messageText());
    try testing.expectError(error.BadArgument, checkPanel(&.{ 3, 2 }, 10, &report));
}

test "transforms that mean nothing are refused" {
    var report: Report = .{};
    const nan = std.math.nan(f64);
    const infinity = std.math.inf(f64);
    for ([_]f64{ 0, -1, nan, infinity }) |sum| {
        try testing.expectError(error.BadArgument, checkTransform(.{ .normalize = true, .target_sum = sum }, &report));
        // nobody looks at it where nothing is normalised
        try checkTransform(.{ .target_sum = sum }, &report);
    }
    for ([_]f64{ -1, nan, infinity, std.math.floatMax(f64) }) |alpha| {
        try testing.expectError(error.BadArgument, checkTransform(.{ .pflog_alpha = alpha }, &report));
    }
    try checkTransform(.{ .pflog_alpha = 0.25 }, &report);
    try testing.expectError(error.BadArgument, checkTransform(.{ .pflog_alpha = 0.25, .log1p = true }, &report));
    try testing.expectError(error.BadArgument, checkTransform(.{ .pflog_alpha = 0.25, .normalize = true }, &report));
}
