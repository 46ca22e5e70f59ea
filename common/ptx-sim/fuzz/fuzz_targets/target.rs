//! Body of both fuzzers: `fuzz/` guided by coverage, `tests/fuzz_smoke.rs` in every test run.

use std::time::Duration;

use ptx_sim::{
    Arg, Asynchrony, Device, DeviceConfig, DevicePtr, Kernel, LaunchConfig, LaunchError, LoadLimits, Module, Observe,
    OutsideFill, Pick, Swizzle, TensorElement, TensorMap, TensorMapDescriptor, Trace, TraceRequest, WatchPoint,
    WatchRequest, WatchSink, WatchThreads,
};

/// SplitMix64: small, and the same everywhere.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Parses the text and, if it is PTX, runs every kernel briefly: plain, and with everything watched, with shapes, places and
/// limits that follow from the text. Returns whether it was PTX. Must never panic, hang or take much memory.
pub(super) fn exercise(source: &str) -> bool {
    // The same text does the same each time.
    let seed = source
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut random = Random(seed);
    let limits = LoadLimits { time: Some(Duration::from_secs(5)), memory: Some(random.pick(&[1 << 20, 256 << 20])) };
    let module = match Module::from_ptx_within(source, "fuzz.ptx", limits) {
        Ok(module) => module,
        Err(error) => {
            let _ = (error.to_string(), error.render(false));
            return false;
        }
    };
    // Products of warpgroups want whole ones.
    let whole = source.contains("wgmma");
    let plain = LaunchConfig {
        grid: [2, 1, 1],
        block: [if whole { 160 } else { 40 }, 1, 1],
        shared_bytes: 256,
        budget: Some(20_000),
        ..Default::default()
    };
    run(&module, DeviceConfig { total_memory: 64 << 20, workers: 1, ..Default::default() }, plain, None);
    let workers = random.pick(&[1, 2]);
    let watch = random.below(4);
    let config = DeviceConfig {
        total_memory: 64 << 20,
        workers,
        sanitize: watch != 0,
        strict: watch == 3,
        memory_limit: random.pick(&[None, Some(1 << 20), Some(16 << 20), Some(128 << 20)]),
        stack: random.pick(&[None, Some(64), Some(1 << 16)]),
        ..DeviceConfig::default()
    };
    let extent = |random: &mut Random, most: &[u32]| random.pick(most);
    let launch = LaunchConfig {
        grid: [extent(&mut random, &[1, 2, 3, 70]), extent(&mut random, &[1, 1, 2]), extent(&mut random, &[1, 1, 3])],
        block: [
            extent(&mut random, if whole { &[33, 128, 160] } else { &[1, 31, 32, 33, 64] }),
            extent(&mut random, &[1, 2, 5]),
            extent(&mut random, &[1, 1, 2]),
        ],
        shared_bytes: extent(&mut random, &[0, 1, 256, 4096]),
        budget: Some(u64::from(random.pick(&[1u32, 100, 20_000, 20_000]))),
        time_limit: random.pick(&[None, Some(Duration::from_millis(1)), Some(Duration::from_secs(2))]),
        cluster: random.pick(&[None, None, Some([1, 1, 1]), Some([2, 1, 1]), Some([1, 2, 3]), Some([2, 2, 2])]),
        non_portable_cluster: true,
        cooperative: random.below(4) == 0,
        asynchrony: random.pick(&[Asynchrony::Late, Asynchrony::Early, Asynchrony::Seeded(1)]),
    };
    run(&module, config, launch, Some(&mut random));
    true
}

fn run(module: &Module, config: DeviceConfig, launch: LaunchConfig, mut random: Option<&mut Random>) {
    let device = Device::new(config);
    let Ok(loaded) = device.load(module) else { return };
    let Ok(buffer) = device.alloc(1 << 16, "buffer") else { return };
    let map = tensor_map(buffer, random.as_deref_mut());
    for info in module.kernels() {
        let kernel = match loaded.kernel(&info.name) {
            Ok(kernel) => kernel,
            Err(error) => {
                let _ = (error.to_string(), error.render(false));
                continue;
            }
        };
        // Parameters of 8 bytes are most often pointers, those of 128 tensor maps, the others small numbers.
        let args: Vec<Arg> = info
            .params
            .iter()
            .map(|param| match param.size {
                8 => buffer.into(),
                128 => map.map_or_else(|| Arg::from_bytes(&[0; 128]), |map| Arg::from(&map)),
                size => {
                    let mut bytes = vec![0; size as usize];
                    bytes.iter_mut().take(1).for_each(|byte| *byte = 3);
                    Arg::from_bytes(&bytes)
                }
            })
            .collect();
        let observe =
            random.as_deref_mut().map_or_else(Observe::default, |random| watched(random, module, &kernel, &launch));
        match kernel.observe(&launch, &args, &observe) {
            Ok(observation) => {
                observation.findings.iter().for_each(|finding| drop(finding.render(None, false)));
                observation.profile.iter().for_each(|profile| {
                    drop((profile.write_json(&mut std::io::sink(), Default::default()), profile.render(5)));
                });
                observation.trace.iter().for_each(draw);
            }
            Err(LaunchError::Fault(fault)) => drop(fault.render(None, false)),
            Err(error) => drop(error.to_string()),
        }
        let _ = device.take_output();
    }
    drop((device.heap_findings(), device.leaks()));
}

/// A map of two dimensions, or an arbitrary and possibly strange one from `random`.
fn tensor_map(buffer: DevicePtr, random: Option<&mut Random>) -> Option<TensorMap> {
    let Some(random) = random else {
        return TensorMapDescriptor::tiled(TensorElement::F16, buffer, &[64, 20], &[64, 16]).encode().ok();
    };
    let rank = random.pick(&[1, 2, 2, 2, 3, 4, 5]);
    let extents: Vec<u64> = (0..rank).map(|_| random.pick(&[1, 8, 20, 32, 64])).collect();
    let sizes: Vec<u32> = (0..rank).map(|_| random.pick(&[1, 2, 8, 16, 32, 64])).collect();
    let plain = TensorMapDescriptor::tiled(random.pick(&TensorElement::ALL), buffer, &extents, &sizes);
    let steps = (0..rank).map(|_| random.pick(&[1, 1, 1, 2, 8])).collect();
    let swizzle = random.pick(&Swizzle::ALL);
    let fill = random.pick(&[OutsideFill::Zero, OutsideFill::Nan]);
    TensorMapDescriptor { element_strides: steps, swizzle, fill, ..plain }.encode().ok()
}

/// A profile, a trace and watch points, some of the time.
fn watched(random: &mut Random, module: &Module, kernel: &Kernel, launch: &LaunchConfig) -> Observe {
    let block = launch.grid.map(|extent| random.below(extent as usize) as u32);
    let warps = launch.block.iter().product::<u32>().div_ceil(32);
    let some_warp = random.next() as u32 % warps;
    let trace = TraceRequest {
        block,
        warp: random.pick(&[None, Some(some_warp)]),
        max_steps: random.pick(&[10, 2000]),
        registers: random.below(2) == 0,
        ..Default::default()
    };
    // Registers of the text, and lines at which it may have code.
    let names: Vec<&str> = module
        .source()
        .split(|part: char| !part.is_ascii_alphanumeric() && part != '%')
        .filter(|word| word.starts_with('%'))
        .collect();
    let mut points = Vec::new();
    for _ in 0..random.below(4) {
        if names.is_empty() || random.below(2) == 0 {
            points.push(WatchPoint::Line(1 + random.below(module.source().lines().count()) as u32));
        } else {
            points.push(WatchPoint::Register(random.pick(&names).to_owned()));
        }
    }
    let thread = launch.block.map(|extent| random.below(extent as usize) as u32);
    let threads = random.pick(&[WatchThreads::Thread(thread), WatchThreads::Warp(some_warp)]);
    let told = std::sync::atomic::AtomicU32::new(0);
    let sink = WatchSink::new(move |watched| {
        drop(watched.to_string());
        told.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 50
    });
    let watch = WatchRequest { points, block, threads, sink };
    // A watch point that the kernel does not have is an error: without it there is something to see.
    let exists = !watch.points.is_empty() && !kernel.info().name.is_empty() && random.below(3) == 0;
    Observe {
        profile: random.below(2) == 0,
        trace: (random.below(3) != 0).then_some(trace),
        watch: exists.then_some(watch),
        touches: true,
        earlier: Vec::new(),
    }
}

/// All pictures of a trace.
fn draw(trace: &Trace) {
    drop(trace.timeline());
    for nth in [1, 2, 5, 17] {
        let pick = Pick { nth, ..Default::default() };
        drop((trace.sectors(&pick), trace.banks(&pick), trace.fragment(&pick)));
        drop((trace.operand(&pick), trace.tile(&pick), trace.tensor_box(&pick), trace.tensor_memory(&pick)));
    }
    for access in trace.accesses.iter().take(100) {
        let _ =
            (access.sectors(), access.bytes(), access.ideal_sectors(), access.wavefronts(), access.ideal_wavefronts());
    }
}
