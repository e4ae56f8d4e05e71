//! What a search through points keeps of those that it meets: the nearest, how many there are, or all.
//!
//!   found.wants(distance, number) bool     false for all that are farther, or as far with a higher number, when it is
//!                                          false for one
//!   found.visit(neighbor)                  one that it wants; it may want fewer from then on

const std = @import("std");

/// Up to so many neighbours are kept in order by insertion, more in a heap.
const insertion_neighbors_max = 48;

pub const Neighbor = struct {
    distance: f64,
    number: u32,

    pub fn isBefore(_: void, one: Neighbor, other: Neighbor) bool {
        return one.distance < other.distance or (one.distance == other.distance and one.number < other.number);
    }
};

/// The k best so far: few in order, many in a heap whose first is the last of them.
pub const Nearest = struct {
    kept: []Neighbor,
    n_kept: usize = 0,
    /// What a further one has to be before; not reached by any point as long as there is room.
    worst: Neighbor = .{ .distance = std.math.inf(f64), .number = 0 },

    pub inline fn wants(best: *const Nearest, distance: f64, number: u32) bool {
        if (distance != best.worst.distance) return distance < best.worst.distance;
        return number < best.worst.number;
    }

    pub fn visit(best: *Nearest, neighbor: Neighbor) void {
        if (best.kept.len <= insertion_neighbors_max) best.insert(neighbor) else best.push(neighbor);
    }

    fn insert(best: *Nearest, neighbor: Neighbor) void {
        const k = best.kept.len;
        if (best.n_kept < k) best.n_kept += 1;
        var place = best.n_kept - 1;
        while (place > 0 and Neighbor.isBefore({}, neighbor, best.kept[place - 1])) : (place -= 1) {
            best.kept[place] = best.kept[place - 1];
        }
        best.kept[place] = neighbor;
        if (best.n_kept == k) best.worst = best.kept[k - 1];
    }

    fn push(best: *Nearest, neighbor: Neighbor) void {
        const kept = best.kept;
        if (best.n_kept < kept.len) {
            var place = best.n_kept;
            best.n_kept += 1;
            while (place > 0 and Neighbor.isBefore({}, kept[(place - 1) / 2], neighbor)) {
                kept[place] = kept[(place - 1) / 2];
                place = (place - 1) / 2;
            }
            kept[place] = neighbor;
        } else {
            var place: usize = 0; // takes the place of the last of them
            while (2 * place + 1 < kept.len) {
                var child = 2 * place + 1;
                if (child + 1 < kept.len and Neighbor.isBefore({}, kept[child], kept[child + 1])) child += 1;
                if (!Neighbor.isBefore({}, neighbor, kept[child])) break;
                kept[place] = kept[child];
                place = child;
            }
            kept[place] = neighbor;
        }
        if (best.n_kept == kept.len) best.worst = kept[0];
    }

    pub fn sort(best: *Nearest) void {
        if (best.kept.len > insertion_neighbors_max) std.mem.sortUnstable(Neighbor, best.kept, {}, Neighbor.isBefore);
    }
};

/// How many lie within a squared distance.
pub const Counter = struct {
    limit: f64,
    n_found: i64 = 0,

    pub inline fn wants(counter: *const Counter, distance: f64, _: u32) bool {
        return distance <= counter.limit;
    }

    pub inline fn visit(counter: *Counter, _: Neighbor) void {
        counter.n_found += 1;
    }
};

/// Which lie within a squared distance; those that have no room are only counted.
pub const Collector = struct {
    limit: f64,
    kept: []Neighbor,
    n_found: usize = 0,

    pub inline fn wants(collector: *const Collector, distance: f64, _: u32) bool {
        return distance <= collector.limit;
    }

    pub inline fn visit(collector: *Collector, neighbor: Neighbor) void {
        if (collector.n_found < collector.kept.len) collector.kept[collector.n_found] = neighbor;
        collector.n_found += 1;
    }
};

// ---- tests ----

const testing = std.testing;

test "the nearest are the first of all in order, few and many of them, also among equal distances" {
    var prng = std.Random.DefaultPrng.init(11);
    const random = prng.random();
    var all: [200]Neighbor = undefined;
    var kept: [all.len]Neighbor = undefined;
    for ([_]usize{ 1, 2, insertion_neighbors_max, insertion_neighbors_max + 1, 199, 200 }) |k| for ([_]u32{ 2, 40, 100_000 }) |n_distances| {
        for (&all, 0..) |*one, number| {
            one.* = .{ .distance = @floatFromInt(random.uintLessThan(u32, n_distances)), .number = @intCast(number) };
        }
        random.shuffle(Neighbor, &all);
        var nearest: Nearest = .{ .kept = kept[0..k] };
        for (all) |one| if (nearest.wants(one.distance, one.number)) nearest.visit(one);
        nearest.sort();
        std.mem.sort(Neighbor, &all, {}, Neighbor.isBefore);
        try testing.expectEqualSlices(Neighbor, all[0..k], kept[0..k]);
    };
}

test "those within a distance, those at it too, are counted and collected as far as there is room" {
    var room: [2]Neighbor = undefined;
    var counter: Counter = .{ .limit = 4 };
    var collector: Collector = .{ .limit = 4, .kept = &room };
    for ([_]f64{ 5, 4, 3.5, 0, 4.0001 }, 0..) |distance, number| {
        const one: Neighbor = .{ .distance = distance, .number = @intCast(number) };
        try testing.expectEqual(counter.wants(distance, one.number), collector.wants(distance, one.number));
        if (!counter.wants(distance, one.number)) continue;
        counter.visit(one);
        collector.visit(one);
    }
    try testing.expectEqual(3, counter.n_found);
    try testing.expectEqual(3, collector.n_found);
    try testing.expectEqual(1, room[0].number);
    try testing.expectEqual(2, room[1].number);
}
