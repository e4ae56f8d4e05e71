//! Which CPU level's table the library uses: the best that the CPU and the system have, or the one that the
//! environment variable SCX_SIMD_LEVEL names (for tests; an unknown or missing level is passed over).

const std = @import("std");
const builtin = @import("builtin");
const build_options = @import("build_options");
const Table = @import("table.zig").Table;

const level_count = build_options.levels.len;

var chosen: std.atomic.Value(?*const Table) = .init(null);

/// Any thread may be the first to ask: all come to the same answer.
pub fn table() *const Table {
    return chosen.load(.acquire) orelse {
        const best = choose();
        chosen.store(best, .release);
        return best;
    };
}

fn linkedTable(comptime level: []const u8) *const Table {
    return @extern(*const Table, .{ .name = "scx_level_table_" ++ level, .visibility = .hidden });
}

fn choose() *const Table {
    const forced = if (std.c.getenv("SCX_SIMD_LEVEL")) |text| std.mem.span(text) else "";
    var best = linkedTable(build_options.levels[0]);
    inline for (build_options.levels) |level| {
        if (isAvailable(level)) {
            if (std.mem.eql(u8, level, forced)) return linkedTable(level);
            best = linkedTable(level);
        }
    }
    return best;
}

/// The levels are in rising order; the first one is what the library itself is compiled for.
fn isAvailable(comptime level: []const u8) bool {
    if (builtin.cpu.arch != .x86_64) return true;
    if (comptime std.mem.eql(u8, level, "v3")) return hasV3();
    if (comptime std.mem.eql(u8, level, "v4")) return hasV3() and hasV4();
    return true;
}

const Registers = struct { eax: u32, ebx: u32, ecx: u32, edx: u32 };

fn cpuid(leaf: u32, subleaf: u32) Registers {
    var eax: u32 = undefined;
    var ebx: u32 = undefined;
    var ecx: u32 = undefined;
    var edx: u32 = undefined;
    asm volatile ("cpuid"
        : [eax] "={eax}" (eax),
          [ebx] "={ebx}" (ebx),
          [ecx] "={ecx}" (ecx),
          [edx] "={edx}" (edx),
        : [leaf] "{eax}" (leaf),
          [subleaf] "{ecx}" (subleaf),
    );
    return .{ .eax = eax, .ebx = ebx, .ecx = ecx, .edx = edx };
}

/// XCR0: which register states the system saves.
fn savedStates() u32 {
    return asm volatile ("xgetbv"
        : [low] "={eax}" (-> u32),
        : [register] "{ecx}" (@as(u32, 0)),
        : .{ .edx = true });
}

inline fn hasBits(value: u32, comptime positions: []const u5) bool {
    comptime var mask: u32 = 0;
    inline for (positions) |position| mask |= 1 << position;
    return value & mask == mask;
}

/// FMA, MOVBE, OSXSAVE, AVX, F16C; LZCNT; BMI1, AVX2, BMI2; xmm and ymm saved.
fn hasV3() bool {
    if (cpuid(0, 0).eax < 7 or cpuid(0x8000_0000, 0).eax < 0x8000_0001) return false;
    if (!hasBits(cpuid(1, 0).ecx, &.{ 12, 22, 27, 28, 29 })) return false;
    if (!hasBits(cpuid(0x8000_0001, 0).ecx, &.{5})) return false;
    if (!hasBits(cpuid(7, 0).ebx, &.{ 3, 5, 8 })) return false;
    return hasBits(savedStates(), &.{ 1, 2 });
}

/// AVX-512 F, DQ, CD, BW, VL; mask and zmm registers saved.
fn hasV4() bool {
    return hasBits(cpuid(7, 0).ebx, &.{ 16, 17, 28, 30, 31 }) and hasBits(savedStates(), &.{ 5, 6, 7 });
}

test "the choice is one of the linked tables, and stays" {
    const first = table();
    try std.testing.expectEqual(first, table());
    var known = false;
    inline for (build_options.levels) |level| known = known or first == linkedTable(level);
    try std.testing.expect(known);
}

test "every linked table names its own level" {
    inline for (build_options.levels) |level| {
        try std.testing.expectEqualStrings(level, std.mem.span(linkedTable(level).name()));
    }
}
