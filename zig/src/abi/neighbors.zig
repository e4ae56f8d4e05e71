//! `scx_neighbors_*`: the neighbours of points in 1 to 3 dimensions.

const std = @import("std");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const parallel = @import("../codec/parallel.zig");
const point_tree = @import("../spatial/point_tree.zig");
const Failure = errors.Failure;
const Report = errors.Report;
const AbiError = errors.AbiError;
const Places = point_tree.Places;
const Neighbor = point_tree.Neighbor;

const Tree = union(enum) {
    one: point_tree.PointTree(1),
    two: point_tree.PointTree(2),
    three: point_tree.PointTree(3),

    fn pointCount(tree: *const Tree) usize {
        return switch (tree.*) {
            inline else => |*inner| inner.points.len,
        };
    }
};

/// `scx_neighbors`: memory alone, so it is good in any process.
pub const NeighborsHandle = struct { tree: Tree };

export fn scx_neighbors_open(
    coordinates: ?[*]const f32,
    n_points: u64,
    n_axes: u32,
    threads: u32,
    neighbors_out: ?*?*NeighborsHandle,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(open(coordinates, n_points, n_axes, threads, neighbors_out, &report), &report, error_out);
}

fn open(
    coordinates: ?[*]const f32,
    n_points: u64,
    n_axes: u32,
    threads: u32,
    neighbors_out: ?*?*NeighborsHandle,
    report: *Report,
) Failure!void {
    const out = try handle.required(*?*NeighborsHandle, neighbors_out, "neighbors_out", report);
    out.* = null;
    if (n_axes < 1 or n_axes > 3) return report.fail(error.BadArgument, "n_axes is {d}; 1 to 3 are allowed", .{n_axes});
    if (n_points > point_tree.points_max) return report.fail(error.Limit, "{d} points are more than the {d} that can be " ++
        "numbered", .{ n_points, point_tree.points_max });
    const start = try handle.required([*]const f32, coordinates, "coordinates", report);
    const values = start[0..@intCast(n_points * n_axes)];
    for (values, 0..) |value, place| {
        if (!std.math.isFinite(value)) return report.fail(error.BadArgument, "the coordinates of point {d} are not finite", .{
            place / n_axes,
        });
    }
    const own = try handle.allocator.create(NeighborsHandle);
    errdefer handle.allocator.destroy(own);
    own.tree = switch (n_axes) {
        1 => .{ .one = try .build(handle.allocator, values, threads, report) },
        2 => .{ .two = try .build(handle.allocator, values, threads, report) },
        else => .{ .three = try .build(handle.allocator, values, threads, report) },
    };
    out.* = own;
}

export fn scx_neighbors_close(neighbors: ?*NeighborsHandle) void {
    const own = neighbors orelse return;
    switch (own.tree) {
        inline else => |*tree| tree.deinit(),
    }
    handle.allocator.destroy(own);
}

/// What the parts of one call share.
const Job = struct {
    tree: *const Tree,
    places: Places,
    parts: usize,
    radius: f64 = 0,
    k: usize = 0,
    /// Entries of `scratch` for each part.
    scratch_length: usize = 0,
    scratch: []Neighbor = &.{},
    counts: []i64 = &.{},
    indptr: []const i64 = &.{},
    out: []i64 = &.{},

    fn init(neighbors: ?*NeighborsHandle, first: u64, last: u64, threads: u32, report: *Report) Failure!Job {
        const own = neighbors orelse return report.fail(error.BadArgument, "the handle is NULL", .{});
        const n_points = own.tree.pointCount();
        if (first > last or last > n_points) return report.fail(error.OutOfRange, "the places {d} to {d} of {d}", .{
            first, last, n_points,
        });
        return .{
            .tree = &own.tree,
            .places = .{ .start = @intCast(first), .stop = @intCast(last) },
            .parts = parallel.threadCount(threads, (last - first) / 64 + 1),
        };
    }

    fn pointCount(job: *const Job) usize {
        return job.tree.pointCount();
    }

    fn allocScratch(job: *Job, length: usize) Failure!void {
        job.scratch_length = length;
        const total = std.math.mul(usize, length, job.parts) catch return error.OutOfMemory;
        job.scratch = try handle.allocator.alloc(Neighbor, total);
    }

    fn partOf(job: *const Job, part: usize) Places {
        const range = parallel.rangeOf(job.places.stop - job.places.start, job.parts, part);
        return .{ .start = job.places.start + range.start, .stop = job.places.start + range.stop };
    }

    fn scratchOf(job: *const Job, part: usize) []Neighbor {
        return job.scratch[part * job.scratch_length ..][0..job.scratch_length];
    }

    fn nearest(job: *const Job, part: usize, _: *Report) Failure!void {
        switch (job.tree.*) {
            inline else => |*tree| tree.nearest(job.partOf(part), job.k, job.out, job.scratchOf(part)),
        }
    }

    fn count(job: *const Job, part: usize, _: *Report) Failure!void {
        switch (job.tree.*) {
            inline else => |*tree| tree.countWithin(job.partOf(part), job.radius, job.counts),
        }
    }

    fn within(job: *const Job, part: usize, report: *Report) Failure!void {
        const result = switch (job.tree.*) {
            inline else => |*tree| tree.within(job.partOf(part), job.radius, job.indptr, job.out, job.scratchOf(part)),
        };
        result catch |failure| switch (failure) {
            error.WrongLength => return report.fail(error.BadArgument, "indptr was not made from the counts of this radius", .{}),
        };
    }
};

export fn scx_neighbors_nearest(
    neighbors: ?*NeighborsHandle,
    first: u64,
    last: u64,
    k: u64,
    points_out: ?[*]i64,
    threads: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(nearest(neighbors, first, last, k, points_out, threads, &report), &report, error_out);
}

fn nearest(
    neighbors: ?*NeighborsHandle,
    first: u64,
    last: u64,
    k: u64,
    points_out: ?[*]i64,
    threads: u32,
    report: *Report,
) Failure!void {
    var job: Job = try .init(neighbors, first, last, threads, report);
    const n_points = job.pointCount();
    if (k == 0 or k >= n_points) return report.fail(error.BadArgument, "k is {d}, but each point has {d} others", .{
        k, n_points -| 1,
    });
    job.k = @intCast(k);
    const out = try handle.required([*]i64, points_out, "points_out", report);
    job.out = out[0 .. n_points * job.k];
    try job.allocScratch(job.k);
    defer handle.allocator.free(job.scratch);
    try parallel.run(job.parts, &job, Job.nearest, report);
}

export fn scx_neighbors_count_within(
    neighbors: ?*NeighborsHandle,
    first: u64,
    last: u64,
    radius: f64,
    counts_out: ?[*]i64,
    threads: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(countWithin(neighbors, first, last, radius, counts_out, threads, &report), &report, error_out);
}

fn countWithin(
    neighbors: ?*NeighborsHandle,
    first: u64,
    last: u64,
    radius: f64,
    counts_out: ?[*]i64,
    threads: u32,
    report: *Report,
) Failure!void {
    var job: Job = try .init(neighbors, first, last, threads, report);
    job.radius = try checkedRadius(radius, report);
    job.counts = (try handle.required([*]i64, counts_out, "counts_out", report))[0..job.pointCount()];
    try parallel.run(job.parts, &job, Job.count, report);
}

fn checkedRadius(radius: f64, report: *Report) Failure!f64 {
    if (std.math.isFinite(radius) and radius >= 0) return radius;
    return report.fail(error.BadArgument, "radius is {d}; a finite number that is not negative is needed", .{radius});
}

export fn scx_neighbors_within(
    neighbors: ?*NeighborsHandle,
    first: u64,
    last: u64,
    radius: f64,
    indptr: ?[*]const i64,
    points_out: ?[*]i64,
    threads: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(within(neighbors, first, last, radius, indptr, points_out, threads, &report), &report, error_out);
}

fn within(
    neighbors: ?*NeighborsHandle,
    first: u64,
    last: u64,
    radius: f64,
    indptr_in: ?[*]const i64,
    points_out: ?[*]i64,
    threads: u32,
    report: *Report,
) Failure!void {
    var job: Job = try .init(neighbors, first, last, threads, report);
    job.radius = try checkedRadius(radius, report);
    const n_points = job.pointCount();
    job.indptr = try handle.offsets(indptr_in, n_points, "indptr", report);
    if (job.indptr[0] != 0) return report.fail(error.BadArgument, "indptr[0] is {d}, not 0", .{job.indptr[0]});
    var longest: i64 = 0;
    for (job.indptr[0..n_points], job.indptr[1..]) |start, stop| {
        if (stop < start) return report.fail(error.BadArgument, "indptr descends from {d} to {d}", .{ start, stop });
        longest = @max(longest, stop - start);
    }
    if (job.indptr[n_points] > 0) {
        const out = try handle.required([*]i64, points_out, "points_out", report);
        job.out = out[0..@intCast(job.indptr[n_points])];
    }
    try job.allocScratch(@intCast(longest));
    defer handle.allocator.free(job.scratch);
    try parallel.run(job.parts, &job, Job.within, report);
}
