//! The neighbours of every point among all points, exactly: a balanced k-d tree over 1 to 3 dimensions.
//!
//!   PointTree(D).build(allocator, coordinates, threads, report) Failure!PointTree(D)
//!   tree.nearest(places, k, out, report)              the k nearest others of each point at these places
//!   tree.countWithin(places, radius, counts)          how many others lie within a radius
//!   tree.within(places, radius, indptr, out, ...)     which
//!
//! Points are put in order by halving: a node's points are split at the median of the axis on which they spread most, by
//! number, so that however they cluster, and however many are equal, the tree is equally deep everywhere and its
//! leaves hold at most `leaf_points_max`. Node i has the children 2i and 2i + 1; its points are a range that follows from
//! its number. A search begins in the leaf of its own point and climbs, looking into a sibling only where its box
//! is nearer than the k-th neighbour so far, or as near and holds a point of a lower number.
//!
//! Distances are sums of squared differences in f64, in the order of the axes, of f32 coordinates. Neighbours are ordered by
//! distance, then by number. A box's distance is computed in the same way and rounds the same way, so it never exceeds
//! that of a point inside.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const found_module = @import("found.zig");
const median = @import("median.zig");
const parallel = @import("../codec/parallel.zig");
const Collector = found_module.Collector;
const Counter = found_module.Counter;
const Failure = errors.Failure;
const Nearest = found_module.Nearest;
const Report = errors.Report;

pub const Neighbor = found_module.Neighbor;

pub const leaf_points_max = 16;
pub const points_max = std.math.maxInt(u32) - 1;

/// Places in the order of the tree.
pub const Places = struct { start: usize, stop: usize };

pub fn PointTree(comptime n_axes: comptime_int) type {
    return struct {
        allocator: Allocator,
        points: []Point,
        /// By node number; the first is unused.
        boxes: []Box,
        n_leaves: usize,
        depth: u6,

        const Tree = @This();
        pub const Point = struct { at: [n_axes]f32, number: u32 };
        /// Where the points of a node lie, and the lowest of their numbers: it tells whether one of them may win a tie.
        const Box = struct { low: [n_axes]f32, high: [n_axes]f32, first: u32 };

        /// `coordinates` are row-major and finite.
        pub fn build(allocator: Allocator, coordinates: []const f32, threads: u32, report: *Report) Failure!Tree {
            const n_points = coordinates.len / n_axes;
            assert(n_points <= points_max);
            const points = try allocator.alloc(Point, n_points);
            errdefer allocator.free(points);
            for (points, 0..) |*point, number| {
                point.* = .{ .at = coordinates[number * n_axes ..][0..n_axes].*, .number = @intCast(number) };
            }
            var depth: u6 = 0;
            while ((n_points >> depth) > leaf_points_max - 1) depth += 1;
            const n_leaves = @as(usize, 1) << depth;
            const boxes = try allocator.alloc(Box, 2 * n_leaves);
            errdefer allocator.free(boxes);
            var tree: Tree = .{ .allocator = allocator, .points = points, .boxes = boxes, .n_leaves = n_leaves, .depth = depth };
            try tree.order(threads, report);
            return tree;
        }

        pub fn deinit(tree: *Tree) void {
            tree.allocator.free(tree.boxes);
            tree.allocator.free(tree.points);
        }

        /// The upper levels one after the other, the subtrees below them at once.
        fn order(tree: *Tree, threads: u32, report: *Report) Failure!void {
            const parts = parallel.threadCount(threads, tree.n_leaves);
            var top: u6 = 0;
            while ((@as(usize, 1) << top) < parts) top += 1;
            top = @min(top, tree.depth);
            for (0..top) |level| {
                const first = @as(usize, 1) << @intCast(level);
                for (first..2 * first) |node| tree.split(node);
            }
            const shared: Subtrees = .{ .tree = tree, .n_roots = @as(usize, 1) << top, .parts = parts };
            try parallel.run(parts, &shared, Subtrees.work, report);
            var node = shared.n_roots;
            while (node > 1) {
                node -= 1;
                tree.boxes[node] = enclosing(tree.boxes[2 * node], tree.boxes[2 * node + 1]);
            }
        }

        const Subtrees = struct {
            tree: *Tree,
            n_roots: usize,
            parts: usize,

            fn work(shared: *const Subtrees, part: usize, _: *Report) Failure!void {
                const range = parallel.rangeOf(shared.n_roots, shared.parts, part);
                for (range.start..range.stop) |root| shared.tree.orderBelow(shared.n_roots + root);
            }
        };

        fn orderBelow(tree: *Tree, node: usize) void {
            if (node >= tree.n_leaves) {
                tree.boxes[node] = boxOf(tree.pointsOf(node));
                return;
            }
            tree.split(node);
            tree.orderBelow(2 * node);
            tree.orderBelow(2 * node + 1);
            tree.boxes[node] = enclosing(tree.boxes[2 * node], tree.boxes[2 * node + 1]);
        }

        fn split(tree: *Tree, node: usize) void {
            const range = tree.rangeOf(node);
            const middle = tree.rangeOf(2 * node).stop;
            const points = tree.points[range.start..range.stop];
            median.select(Point, points, middle - range.start, widestAxis(boxOf(points)));
        }

        fn rangeOf(tree: *const Tree, node: usize) Places {
            const level: u6 = std.math.log2_int(usize, node);
            const place: u128 = node - (@as(usize, 1) << level);
            const n_points = tree.points.len;
            return .{ .start = @intCast(n_points * place >> level), .stop = @intCast(n_points * (place + 1) >> level) };
        }

        fn pointsOf(tree: *const Tree, node: usize) []Point {
            const range = tree.rangeOf(node);
            return tree.points[range.start..range.stop];
        }

        fn boxOf(points: []const Point) Box {
            var box: Box = .{
                .low = @splat(std.math.inf(f32)),
                .high = @splat(-std.math.inf(f32)),
                .first = std.math.maxInt(u32),
            };
            for (points) |*point| {
                box.first = @min(box.first, point.number);
                inline for (0..n_axes) |axis| {
                    box.low[axis] = @min(box.low[axis], point.at[axis]);
                    box.high[axis] = @max(box.high[axis], point.at[axis]);
                }
            }
            return box;
        }

        fn enclosing(one: Box, other: Box) Box {
            var box = one;
            box.first = @min(one.first, other.first);
            inline for (0..n_axes) |axis| {
                box.low[axis] = @min(one.low[axis], other.low[axis]);
                box.high[axis] = @max(one.high[axis], other.high[axis]);
            }
            return box;
        }

        fn widestAxis(box: Box) usize {
            var widest: usize = 0;
            var width: f64 = -1;
            inline for (0..n_axes) |axis| {
                const found = @as(f64, box.high[axis]) - box.low[axis];
                if (found > width) {
                    width = found;
                    widest = axis;
                }
            }
            return widest;
        }

        // ---- searching ----

        fn distanceTo(box: *const Box, at: [n_axes]f64) f64 {
            var sum: f64 = 0;
            inline for (0..n_axes) |axis| {
                const outside = @max(box.low[axis] - at[axis], at[axis] - box.high[axis], 0);
                sum += outside * outside;
            }
            return sum;
        }

        fn distanceBetween(point: *const Point, at: [n_axes]f64) f64 {
            var sum: f64 = 0;
            inline for (0..n_axes) |axis| {
                const difference = point.at[axis] - at[axis];
                sum += difference * difference;
            }
            return sum;
        }

        fn placeOf(point: *const Point) [n_axes]f64 {
            var at: [n_axes]f64 = undefined;
            inline for (0..n_axes) |axis| at[axis] = point.at[axis];
            return at;
        }

        /// Has `found` (of found.zig) visit the points of other numbers than `own`, all that it wants.
        fn search(tree: *const Tree, leaf: usize, own: u32, at: [n_axes]f64, found: anytype) void {
            tree.scan(leaf, own, at, found);
            var node = leaf;
            while (node > 1) : (node /= 2) {
                const sibling = node ^ 1;
                const box = &tree.boxes[sibling];
                if (found.wants(distanceTo(box, at), box.first)) tree.descend(sibling, own, at, found);
            }
        }

        fn descend(tree: *const Tree, node: usize, own: u32, at: [n_axes]f64, found: anytype) void {
            if (node >= tree.n_leaves) return tree.scan(node, own, at, found);
            var near = 2 * node;
            var far = near + 1;
            var near_distance = distanceTo(&tree.boxes[near], at);
            var far_distance = distanceTo(&tree.boxes[far], at);
            const far_wins_ties = tree.boxes[far].first < tree.boxes[near].first;
            if (far_distance < near_distance or (far_distance == near_distance and far_wins_ties)) {
                std.mem.swap(usize, &near, &far);
                std.mem.swap(f64, &near_distance, &far_distance);
            }
            if (found.wants(near_distance, tree.boxes[near].first)) tree.descend(near, own, at, found);
            if (found.wants(far_distance, tree.boxes[far].first)) tree.descend(far, own, at, found);
        }

        fn scan(tree: *const Tree, leaf: usize, own: u32, at: [n_axes]f64, found: anytype) void {
            for (tree.pointsOf(leaf)) |*point| {
                const distance = distanceBetween(point, at);
                if (found.wants(distance, point.number) and point.number != own) {
                    found.visit(.{ .distance = distance, .number = point.number });
                }
            }
        }

        /// For the point at each of the places: its k nearest others, in row `number` of `out`. k is below the number
        /// of points; `scratch` has k entries.
        pub fn nearest(tree: *const Tree, places: Places, k: usize, out: []i64, scratch: []Neighbor) void {
            assert(k > 0 and k < tree.points.len and scratch.len == k and out.len == tree.points.len * k);
            var leaf = tree.leafAt(places.start);
            for (places.start..places.stop) |place| {
                while (place >= tree.rangeOf(leaf).stop) leaf += 1;
                const point = &tree.points[place];
                var best: Nearest = .{ .kept = scratch };
                tree.search(leaf, point.number, placeOf(point), &best);
                assert(best.n_kept == k);
                best.sort();
                const row = out[@as(usize, point.number) * k ..][0..k];
                for (row, scratch) |*target, neighbor| target.* = neighbor.number;
            }
        }

        pub fn countWithin(tree: *const Tree, places: Places, radius: f64, counts: []i64) void {
            assert(counts.len == tree.points.len);
            var leaf = tree.leafAt(places.start);
            for (places.start..places.stop) |place| {
                while (place >= tree.rangeOf(leaf).stop) leaf += 1;
                const point = &tree.points[place];
                var counter: Counter = .{ .limit = radius * radius };
                tree.search(leaf, point.number, placeOf(point), &counter);
                counts[point.number] = counter.n_found;
            }
        }

        /// Fills `out[indptr[number]..indptr[number + 1]]`, whose length `countWithin` gave; `scratch` has room for the
        /// longest.
        pub fn within(
            tree: *const Tree,
            places: Places,
            radius: f64,
            indptr: []const i64,
            out: []i64,
            scratch: []Neighbor,
        ) error{WrongLength}!void {
            var leaf = tree.leafAt(places.start);
            for (places.start..places.stop) |place| {
                while (place >= tree.rangeOf(leaf).stop) leaf += 1;
                const point = &tree.points[place];
                const row = out[@intCast(indptr[point.number])..@intCast(indptr[point.number + 1])];
                var collector: Collector = .{ .limit = radius * radius, .kept = scratch[0..row.len] };
                tree.search(leaf, point.number, placeOf(point), &collector);
                if (collector.n_found != row.len) return error.WrongLength;
                std.mem.sortUnstable(Neighbor, scratch[0..row.len], {}, Neighbor.isBefore);
                for (row, scratch[0..row.len]) |*target, neighbor| target.* = neighbor.number;
            }
        }

        fn leafAt(tree: *const Tree, place: usize) usize {
            var leaf = tree.n_leaves;
            var last = 2 * tree.n_leaves - 1;
            while (leaf < last) {
                const middle = leaf + (last - leaf) / 2;
                if (place < tree.rangeOf(middle).stop) last = middle else leaf = middle + 1;
            }
            return leaf;
        }
    };
}

// ---- tests ----

const testing = std.testing;

const Shape = enum { uniform, lattice, equal, two_clusters, line, far };

fn sample(random: std.Random, shape: Shape) f32 {
    return switch (shape) {
        .uniform => random.floatNorm(f32),
        .lattice => @floatFromInt(random.uintLessThan(u8, 5)),
        .equal => 3.5,
        .two_clusters => if (random.boolean()) 1e30 else random.float(f32) * 1e-30,
        .line => if (random.uintLessThan(u8, 3) == 0) random.float(f32) else 0,
        .far => std.math.pow(f32, 10, random.float(f32) * 60 - 30),
    };
}

/// Compares with sorting all others of each point.
fn check(comptime n_axes: usize, random: std.Random, n_points: usize, shape: Shape) !void {
    const allocator = testing.allocator;
    const coordinates = try allocator.alloc(f32, n_points * n_axes);
    defer allocator.free(coordinates);
    for (coordinates) |*value| value.* = sample(random, shape);
    var report: Report = .{};
    var tree: PointTree(n_axes) = try .build(allocator, coordinates, 1 + random.uintLessThan(u32, 3), &report);
    defer tree.deinit();
    const all: Places = .{ .start = 0, .stop = n_points };
    const sorted = try allocator.alloc(Neighbor, n_points);
    defer allocator.free(sorted);
    const out = try allocator.alloc(i64, n_points * n_points);
    defer allocator.free(out);
    const scratch = try allocator.alloc(Neighbor, n_points);
    defer allocator.free(scratch);
    const k = 1 + random.uintLessThan(usize, n_points - 1);
    tree.nearest(all, k, out[0 .. n_points * k], scratch[0..k]);
    for (0..n_points) |number| {
        othersOf(n_axes, coordinates, number, sorted[0 .. n_points - 1]);
        for (out[number * k ..][0..k], sorted[0..k]) |found, expected| try testing.expectEqual(expected.number, found);
    }
    const radius = @sqrt(sorted[random.uintLessThan(usize, n_points - 1)].distance);
    const counts = try allocator.alloc(i64, n_points);
    defer allocator.free(counts);
    tree.countWithin(all, radius, counts);
    const indptr = try allocator.alloc(i64, n_points + 1);
    defer allocator.free(indptr);
    indptr[0] = 0;
    for (counts, 0..) |n_found, number| indptr[number + 1] = indptr[number] + n_found;
    try tree.within(all, radius, indptr, out, scratch);
    for (0..n_points) |number| {
        othersOf(n_axes, coordinates, number, sorted[0 .. n_points - 1]);
        const row = out[@intCast(indptr[number])..@intCast(indptr[number + 1])];
        for (sorted[0 .. n_points - 1], 0..) |expected, place| {
            try testing.expectEqual(expected.distance <= radius * radius, place < row.len);
            if (place < row.len) try testing.expectEqual(expected.number, row[place]);
        }
    }
}

fn othersOf(comptime n_axes: usize, coordinates: []const f32, number: usize, target: []Neighbor) void {
    var n_others: usize = 0;
    for (0..coordinates.len / n_axes) |other| {
        if (other == number) continue;
        var sum: f64 = 0;
        for (0..n_axes) |axis| {
            const difference = @as(f64, coordinates[other * n_axes + axis]) - coordinates[number * n_axes + axis];
            sum += difference * difference;
        }
        target[n_others] = .{ .distance = sum, .number = @intCast(other) };
        n_others += 1;
    }
    std.mem.sort(Neighbor, target, {}, Neighbor.isBefore);
}

test "neighbours are those of a search through all points" {
    var prng = std.Random.DefaultPrng.init(0);
    const random = prng.random();
    inline for (1..4) |n_axes| {
        for (std.enums.values(Shape)) |shape| {
            for ([_]usize{ 2, 3, 15, 16, 17, 33, 100, 257 }) |n_points| try check(n_axes, random, n_points, shape);
        }
    }
}
