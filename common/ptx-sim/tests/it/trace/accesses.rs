//! Tests of the accesses of a warp and their pictures: sectors, banks, both ends of a copy.

use ptx_sim::{AccessKind, Arg, Device, LaunchConfig, Module, Observe, Pick, Space, TraceRequest};

use super::{kernels, marked, observe, read, shows, trace, write};

#[test]
fn a_coalesced_copy_moves_what_it_asks_for() {
    let trace = trace("copies", [32, 1, 1], 2, &[32]);
    let svg = trace.sectors(&read()).unwrap();
    shows(&svg, "Warp 0, lanes 0–31: read of 4 bytes each. 4 sectors (128 bytes) for 128 bytes; ideal: 4 sectors.");
    assert_eq!((marked(&svg, "path", "wire"), marked(&svg, "rect", "edge")), (32, 0));
    assert!(svg.contains("if (i &lt; n) out[i] = in[i];"), "the line of the source: {svg}");
    shows(&trace.sectors(&write()).unwrap(), "write of 4 bytes each. 4 sectors");
    // Only some lanes.
    let trace = observe("copies", [32, 1, 1], 2, &[20], TraceRequest::default()).unwrap();
    shows(&trace.sectors(&read()).unwrap(), "lanes 0–19: read of 4 bytes each. 3 sectors (96 bytes) for 80 bytes");
    // 16 bytes per lane.
    let by_four = self::trace("copies_by_four", [32, 1, 1], 2, &[]);
    shows(&by_four.sectors(&read()).unwrap(), "16 sectors (512 bytes) for 512 bytes; ideal: 16 sectors.");
}

#[test]
fn a_walk_down_a_column_moves_a_sector_for_each_lane() {
    let walk = trace("sums_rows", [32, 1, 1], 2, &[32]);
    let svg = walk.sectors(&read()).unwrap();
    shows(&svg, "32 sectors (1024 bytes) for 128 bytes; ideal: 4 sectors.");
    // 32 lines of 4 sectors, a quarter of them moved.
    let legend = 1;
    assert_eq!((marked(&svg, "rect", "pale"), marked(&svg, "rect", "edge")), (32 + legend, 96 + legend));
    // With rows of 5 words the lanes are 20 bytes apart: 640 bytes in a row.
    let narrow = trace("sums_rows", [32, 1, 1], 2, &[5]);
    shows(&narrow.sectors(&Pick { nth: 2, ..read() }).unwrap(), "20 sectors (640 bytes) for 128 bytes");
    let access = narrow.accesses.iter().find(|access| access.space == Space::Global).unwrap();
    assert_eq!(narrow.locate(access.space, access.touches[3].address), "in + 60");
}

#[test]
fn a_transpose_has_conflicts_unless_its_rows_are_padded() {
    let plain = trace("transposes", [32, 32, 1], 2, &[]);
    let svg = plain.banks(&read()).unwrap();
    shows(&svg, "Warp 0, lanes 0–31: read of 4 bytes each. 32-way bank conflict: 32 wavefronts; ideal: 1.");
    assert_eq!(marked(&svg, "rect", "warn"), 31 + 1); // and the legend
    shows(&plain.banks(&write()).unwrap(), "No bank conflict: 1 wavefront; ideal: 1.");
    let padded = trace("transposes_padded", [32, 32, 1], 2, &[]);
    for warp in 0..32 {
        let svg = padded.banks(&Pick { warp: Some(warp), ..read() }).unwrap();
        shows(&svg, "No bank conflict: 1 wavefront");
        assert_eq!(marked(&svg, "rect", "warn"), 0);
    }
    // float4: a quarter of the warp at a time, or a half where neighbours read the same 16 bytes.
    let broadcast = trace("broadcasts", [64, 1, 1], 2, &[]);
    let svg = broadcast.banks(&read()).unwrap();
    shows(&svg, "No bank conflict: 2 wavefronts; ideal: 2.");
    assert_eq!(marked(&svg, "rect", "good"), 8 + 1);
}

#[test]
fn both_ends_of_an_asynchronous_copy_are_recorded() {
    let ptx = std::fs::read_to_string(kernels().join("cp_async_ragged.ptx")).unwrap();
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(&ptx, "cp.ptx").unwrap()).unwrap();
    let kernel = module.kernel("last_bytes").unwrap();
    let (from, to) = (device.alloc(2048, "from").unwrap(), device.alloc(2048, "to").unwrap());
    let args: Vec<Arg> = kernel.info().params.iter().zip([from, to]).map(|(_, pointer)| pointer.into()).collect();
    let config = LaunchConfig { block: [2, 1, 1], ..Default::default() };
    let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
    let trace = kernel.observe(&config, &args, &observe).unwrap().trace.unwrap();
    let copies: Vec<_> = trace.accesses.iter().filter(|access| access.kind == AccessKind::Copy).collect();
    let ends = |space| copies.iter().filter(|access| access.space == space).count();
    assert!(ends(Space::Global) > 0 && ends(Space::Shared) > 0, "{copies:?}");
    let shared = copies.iter().find(|access| access.space == Space::Shared).unwrap();
    assert!(shared.touches.iter().all(|touch| touch.bytes == 16));
    let read = copies.iter().filter(|access| access.space == Space::Global).flat_map(|access| &access.touches);
    assert!(read.clone().any(|touch| touch.bytes < 16) && read.clone().all(|touch| touch.bytes <= 16));
}

#[test]
fn copies_of_any_number_of_bytes_have_rounds() {
    for bytes in 0..=16 {
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n
            .visible .entry k(.param .u64 from) {{
                .reg .b64 %rd<2>; .reg .b32 %r<2>; .shared .align 16 .b8 tile[16];
                ld.param.u64 %rd1, [from]; mov.u32 %r1, tile;
                cp.async.cg.shared.global [%r1], [%rd1], 16, {bytes};
                cp.async.wait_all;
                ret;
            }}"
        );
        let device = Device::new(Default::default());
        let module = device.load(&Module::from_ptx(&ptx, "cp.ptx").unwrap()).unwrap();
        let args = [Arg::from(device.alloc(64, "from").unwrap())];
        let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
        let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
        let trace = module.kernel("k").unwrap().observe(&config, &args, &observe).unwrap().trace.unwrap();
        for access in &trace.accesses {
            assert!(access.wavefronts() >= access.ideal_wavefronts(), "{bytes}: {access:?}");
        }
        assert!(trace.accesses.iter().any(|access| access.kind == AccessKind::Copy));
    }
}
