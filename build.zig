//! Builds libscx, the native library, and runs its Zig tests.
//!
//! The kernels are compiled once for each CPU level, each time into an object of its own, from the
//! one root file `zig/src/level.zig`. The library itself is compiled for the lowest level and picks
//! one of the linked tables when it is loaded.
const std = @import("std");
const builtin = @import("builtin");
const zon = @import("build.zig.zon");

/// Only the pinned compiler gets to see the real build: another one would stop at some change of
/// the language or of std.Build, with an error that does not say why.
pub const build = if (std.mem.eql(u8, builtin.zig_version_string, zon.minimum_zig_version))
    buildWithPinnedZig
else
    @compileError("SCX is built with Zig " ++ zon.minimum_zig_version ++ ", but this is Zig " ++
        builtin.zig_version_string ++ "; get the right one with: python -m pip install ziglang==" ++
        zon.minimum_zig_version ++ " (then: python -m ziglang build)");

/// The oldest glibc that the library must load on: that of manylinux_2_28.
const glibc_min: std.SemanticVersion = .{ .major = 2, .minor = 28, .patch = 0 };
/// The oldest macOS that the library must load on: the first one for arm64.
const macos_min: std.SemanticVersion = .{ .major = 11, .minor = 0, .patch = 0 };

const Level = struct {
    name: []const u8,
    cpu: *const std.Target.Cpu.Model,
    /// Of the model's hints for the code generator, those that do not hold here.
    x86_without: []const std.Target.x86.Feature = &.{},
    /// What tells whether a machine has the level. The model's own list would not do: it holds
    /// hints for the code generator too, which a better machine may lack.
    x86_needs: []const std.Target.x86.Feature = &.{},
};

const levels_x86_64 = [_]Level{
    .{
        .name = "v2",
        .cpu = &std.Target.x86.cpu.x86_64_v2,
        .x86_needs = &.{ .cx16, .popcnt, .sahf, .sse4_2 },
    },
    .{
        .name = "v3",
        .cpu = &std.Target.x86.cpu.x86_64_v3,
        .x86_needs = &.{ .avx2, .bmi, .bmi2, .f16c, .fma, .lzcnt, .movbe, .xsave },
    },
    .{
        .name = "v4",
        .cpu = &std.Target.x86.cpu.x86_64_v4,
        // it would cut each 512-bit load and store in two, though the kernels choose their width themselves
        .x86_without = &.{.prefer_256_bit},
        .x86_needs = &.{ .avx512f, .avx512bw, .avx512cd, .avx512dq, .avx512vl },
    },
};
const levels_aarch64 = [_]Level{
    .{ .name = "neon", .cpu = &std.Target.aarch64.cpu.generic },
};

fn levelsOf(arch: std.Target.Cpu.Arch) []const Level {
    return switch (arch) {
        .x86_64 => &levels_x86_64,
        .aarch64 => &levels_aarch64,
        else => std.process.fatal("SCX has kernels for x86_64 and aarch64, not for {t}", .{arch}),
    };
}

fn buildWithPinnedZig(b: *std.Build) void {
    const query = b.standardTargetOptionsQueryOnly(.{ .default_target = defaultTarget(b.graph.host.result) });
    const optimize = b.option(
        std.builtin.Optimize,
        "optimize",
        "How the library is compiled (default: fast)",
    ) orelse .fast;
    const test_optimize = b.option(
        std.builtin.Optimize,
        "test-optimize",
        "How the Zig tests are compiled (default: safe, so that each broken promise stops them)",
    ) orelse .safe;
    const test_filters = b.option(
        []const []const u8,
        "test-filter",
        "Run only the Zig tests whose name contains this text",
    ) orelse &.{};

    const library = b.addLibrary(.{
        .name = "scx",
        .linkage = .dynamic,
        .root_module = libraryModule(b, "zig/src/root.zig", query, optimize),
        .use_llvm = true,
    });
    library.link_gc_sections = true;
    if (library.rootModuleTarget().ofmt == .elf) library.setVersionScript(b.path("zig/exports.map"));
    b.installArtifact(library);

    const test_step = b.step("test", "Run the Zig tests, those of the kernels at every level this CPU has");
    addTests(b, test_step, test_optimize, test_filters);

    const fuzzer = b.addExecutable(.{
        .name = "scx-fuzz",
        .root_module = libraryModule(b, "zig/src/fuzz.zig", defaultTarget(b.graph.host.result), .safe),
        .use_llvm = true,
    });
    const fuzz_run = b.addRunArtifact(fuzzer);
    fuzz_run.stdio = .inherit;
    fuzz_run.has_side_effects = true;
    fuzz_run.addArg(b.fmt("{d}", .{b.option(u32, "fuzz-seconds", "How long to fuzz (default: 60)") orelse 60}));
    if (b.option(u64, "fuzz-seed", "The seed of a fuzz run, to repeat it")) |seed| fuzz_run.addArg(b.fmt("{d}", .{seed}));
    const fuzz_step = b.step("fuzz", "Read damaged files for a time");
    fuzz_step.dependOn(&fuzz_run.step);

    const check_step = b.step("check", "Check the format of all Zig sources");
    check_step.dependOn(&b.addFmt(.{
        .paths = &.{ b.path("zig"), b.path("build.zig"), b.path("build.zig.zon") },
        .check = true,
    }).step);
}

/// The machine's own kind of system, but the oldest release of it that is supported, so that a
/// library built here loads wherever a published one does.
fn defaultTarget(host: std.Target) std.Target.Query {
    var query: std.Target.Query = .{ .cpu_arch = host.cpu.arch, .os_tag = host.os.tag, .abi = host.abi };
    if (host.isGnuLibC()) {
        const glibc_host = host.os.version_range.linux.glibc;
        query.glibc_version = if (glibc_host.order(glibc_min) == .lt) glibc_host else glibc_min;
    } else if (host.os.tag == .macos) {
        query.os_version_min = .{ .semver = macos_min };
    } else if (host.os.tag == .windows) {
        query.abi = .gnu; // needs no Visual Studio; the C ABI is the same
    }
    return query;
}

fn resolveForCpu(
    b: *std.Build,
    query: std.Target.Query,
    level: Level,
) std.Build.ResolvedTarget {
    var query_cpu = query;
    query_cpu.cpu_model = .{ .explicit = level.cpu };
    query_cpu.cpu_features_sub = std.Target.x86.featureSet(level.x86_without);
    return b.resolveTargetQuery(query_cpu);
}

fn archOf(b: *std.Build, query: std.Target.Query) std.Target.Cpu.Arch {
    return query.cpu_arch orelse b.graph.host.result.cpu.arch;
}

/// Everything but the kernels, compiled for the lowest level, with the objects of all levels in it.
fn libraryModule(
    b: *std.Build,
    root_file: []const u8,
    query: std.Target.Query,
    optimize: std.builtin.Optimize,
) *std.Build.Module {
    const levels = levelsOf(archOf(b, query));
    const names = b.allocator.alloc([]const u8, levels.len) catch @panic("OOM");
    for (names, levels) |*name, level| name.* = level.name;

    const options = b.addOptions();
    options.addOption([]const []const u8, "levels", names);
    options.addOption([]const u8, "version", zon.version);

    const module = b.createModule(.{
        .root_source_file = b.path(root_file),
        .target = resolveForCpu(b, query, levels[0]),
        .optimize = optimize,
        .strip = stripFor(optimize),
        .link_libc = true,
        .pic = true,
    });
    module.addOptions("build_options", options);
    for (levels) |level| {
        module.addObject(b.addObject(.{
            .name = b.fmt("scx_level_{s}", .{level.name}),
            .root_module = levelModule(b, query, level, optimize),
            .use_llvm = true,
        }));
    }
    return module;
}

/// The codecs and kernels for one CPU level; exports one hidden symbol, the level's table.
fn levelModule(
    b: *std.Build,
    query: std.Target.Query,
    level: Level,
    optimize: std.builtin.Optimize,
) *std.Build.Module {
    const options = b.addOptions();
    options.addOption([]const u8, "name", level.name);
    options.addOption([]const u8, "symbol", b.fmt("scx_level_table_{s}", .{level.name}));

    const module = b.createModule(.{
        .root_source_file = b.path("zig/src/level.zig"),
        .target = resolveForCpu(b, query, level),
        .optimize = optimize,
        .strip = stripFor(optimize),
        .link_libc = true,
        .pic = true,
    });
    module.addOptions("level_options", options);
    return module;
}

/// Reading debug information to print a stack trace makes up most of a small binary, and building
/// it most of the time that the tests take. Only debug keeps it: -Dtest-optimize=debug shows where.
fn stripFor(optimize: std.builtin.Optimize) bool {
    return optimize != .debug;
}

fn hasLevel(host: std.Target, level: Level) bool {
    for (level.x86_needs) |feature| {
        if (!std.Target.x86.featureSetHas(host.cpu.features, feature)) return false;
    }
    return true;
}

/// Tests always run on this machine, whatever target the library is built for.
fn addTests(
    b: *std.Build,
    step: *std.Build.Step,
    optimize: std.builtin.Optimize,
    filters: []const []const u8,
) void {
    const host = b.graph.host.result;
    const query = defaultTarget(host);
    const library_tests = b.addTest(.{
        .name = "test-library",
        .root_module = libraryModule(b, "zig/src/root.zig", query, optimize),
        .filters = filters,
        .use_llvm = true,
    });
    step.dependOn(&b.addRunArtifact(library_tests).step);

    for (levelsOf(host.cpu.arch)) |level| {
        if (!hasLevel(host, level)) continue;
        const level_tests = b.addTest(.{
            .name = b.fmt("test-level-{s}", .{level.name}),
            .root_module = levelModule(b, query, level, optimize),
            .filters = filters,
            .use_llvm = true,
        });
        step.dependOn(&b.addRunArtifact(level_tests).step);
    }
}
