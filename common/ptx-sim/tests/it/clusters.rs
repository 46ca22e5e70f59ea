//! Blocks of a cluster: the results of each kernel of `kernels/clusters.cu`, and the sanitiser's findings in it.

use ptx_sim::{Arg, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

const PTX: &str = include_str!("../kernels/clusters.ptx");
const CU: &str = include_str!("../kernels/clusters.cu");
const THREADS: u32 = 64;

/// A launch in clusters of some blocks, and the contents of the last buffer.
struct Run {
    result: Result<Vec<u32>, Vec<Fault>>,
}

fn launch(
    kernel: &str,
    config: &LaunchConfig,
    inputs: &[&[u32]],
    outputs: usize,
    values: &[u32],
    sanitize: bool,
) -> Run {
    let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
    let module = device.load(&Module::from_ptx(PTX, "clusters.ptx").unwrap()).unwrap();
    let mut args = Vec::new();
    let mut last = None;
    let zeros = vec![0; outputs];
    for words in inputs.iter().copied().chain([zeros.as_slice()]) {
        let pointer = device.alloc(words.len() as u64 * 4, "buffer").unwrap();
        device.write(pointer, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        args.push(Arg::from(pointer));
        last = Some(pointer);
    }
    args.extend(values.iter().map(|value| Arg::from(*value)));
    let config = LaunchConfig { budget: Some(20_000_000), ..*config };
    let result = match module.kernel(kernel).unwrap().launch(&config, &args) {
        Ok(_) => {
            let mut bytes = vec![0; outputs * 4];
            device.read(last.unwrap(), &mut bytes).unwrap();
            Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
        }
        Err(LaunchError::Findings(findings)) => Err(findings),
        Err(LaunchError::Fault(fault)) => Err(vec![*fault]),
        Err(other) => panic!("{kernel}: {other}"),
    };
    Run { result }
}

fn clusters(grid: u32, blocks: u32) -> LaunchConfig {
    LaunchConfig {
        grid: [grid, 1, 1],
        block: [THREADS, 1, 1],
        cluster: Some([blocks, 1, 1]),
        shared_bytes: 256,
        ..Default::default()
    }
}

/// Clusters that not every GPU has room for.
fn large_clusters(grid: u32, blocks: u32) -> LaunchConfig {
    LaunchConfig { non_portable_cluster: true, ..clusters(grid, blocks) }
}

fn distinct(count: u32) -> Vec<u32> {
    (0..count).map(|at| (at as f32 + 0.5).to_bits()).collect()
}

/// Launches a kernel that takes floats and returns as many.
fn floats(kernel: &str, grid: u32, blocks: u32, sanitize: bool) -> Run {
    let count = grid * THREADS;
    launch(kernel, &large_clusters(grid, blocks), &[&distinct(count)], count as usize, &[], sanitize)
}

#[track_caller]
fn finds(kernel: &str, run: Run, kind: FaultKind, text: &str) -> Fault {
    let findings = run.result.expect_err(kernel);
    let all: String = findings.iter().map(|finding| finding.render(Some(CU), false) + "\n").collect();
    let line = |finding: &Fault| CU.lines().nth(finding.line.unwrap() as usize - 1).unwrap().trim().to_owned();
    let found: Vec<(FaultKind, String)> = findings.iter().map(|finding| (finding.kind, line(finding))).collect();
    assert_eq!(found, [(kind, text.to_owned())], "{kernel}:\n{all}");
    findings.into_iter().next().unwrap()
}

#[test]
fn blocks_read_from_each_other() {
    for (grid, blocks) in [(2, 2), (6, 3), (8, 8), (3, 1), (32, 16)] {
        for sanitize in [false, true] {
            let neighbour = |block: u32| block / blocks * blocks + (block % blocks + 1) % blocks;
            let value = |at: u32| neighbour(at / THREADS) * THREADS + at % THREADS;
            let expected: Vec<u32> = (0..grid * THREADS).map(|at| (value(at) as f32 + 0.5).to_bits()).collect();
            for kernel in ["ring", "ring_fenced"] {
                assert_eq!(
                    floats(kernel, grid, blocks, sanitize).result.unwrap(),
                    expected,
                    "{kernel} {grid} {blocks}"
                );
            }
        }
    }
}

#[test]
fn rounds_add_what_came_by() {
    for (grid, blocks) in [(4, 4), (6, 2)] {
        let expected: Vec<u32> = (0..grid * THREADS)
            .map(|at| {
                let (block, thread) = (at / THREADS, at % THREADS);
                let first = block / blocks * blocks;
                let value = |round: u32| {
                    let rank = (block % blocks + blocks * 2 - round) % blocks;
                    ((first + rank) * THREADS + thread) as f32 + 0.5
                };
                (0..blocks).map(|round| value(round) * (round + 1) as f32).sum::<f32>().to_bits()
            })
            .collect();
        for sanitize in [false, true] {
            assert_eq!(floats("rounds", grid, blocks, sanitize).result.unwrap(), expected);
        }
    }
}

#[test]
fn atomics_reach_all_blocks() {
    let (n, bins) = (1000u32, 64u32);
    let numbers: Vec<u32> = (0..n).map(|at| at * at / 7).collect();
    let mut expected = vec![0; bins as usize];
    numbers.iter().for_each(|number| expected[(number % bins) as usize] += 1);
    for (grid, blocks) in [(4, 2), (8, 8), (2, 1)] {
        for sanitize in [false, true] {
            let run = launch("histogram", &clusters(grid, blocks), &[&numbers], bins as usize, &[n, bins], sanitize);
            assert_eq!(run.result.unwrap(), expected, "{grid} {blocks}");
        }
    }
}

#[test]
fn a_block_knows_its_place() {
    let (grid, cluster) = ([4, 6, 2], [2u32, 3, 1]);
    let config = LaunchConfig { grid, block: [32, 1, 1], cluster: Some(cluster), ..Default::default() };
    let mut expected = Vec::new();
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                let [ix, iy] = [x % 2, y % 3];
                let rank = iy * 2 + ix;
                expected.push(rank | ix << 4 | iy << 6 | (x / 2) << 12 | (y / 3) << 16 | z << 20 | 6 << 24);
            }
        }
    }
    assert_eq!(launch("places", &config, &[], expected.len(), &[], false).result.unwrap(), expected);
}

#[test]
fn missing_synchronisation() {
    let grid = 4;
    let call = "out[i] = load(next);";
    let race =
        finds("ring_without_first_sync", floats("ring_without_first_sync", grid, 2, true), FaultKind::SharedRace, call);
    assert!(race.other.is_some_and(|other| other.block != race.block), "between two blocks");
    finds("ring_relaxed", floats("ring_relaxed", grid, 2, true), FaultKind::SharedRace, call);
    finds("ring_without_last_sync", floats("ring_without_last_sync", grid, 2, true), FaultKind::BlockExit, call);
    let numbers: Vec<u32> = (0..500).collect();
    let histogram = launch("histogram_by_stores", &clusters(2, 2), &[&numbers], 64, &[500, 64], true);
    for run in [floats("rounds_in_one_box", 4, 4, true), histogram] {
        let findings = run.result.unwrap_err();
        assert!(findings.iter().all(|finding| finding.kind == FaultKind::SharedRace), "{findings:?}");
        let between =
            findings.iter().find(|finding| finding.other.as_ref().is_some_and(|other| other.block != finding.block));
        let text = between.unwrap().render(Some(CU), false);
        assert!(text.contains("cluster.sync()"), "{text}");
    }
}

#[test]
fn addresses_that_the_cluster_does_not_have() {
    let beyond = |sanitize| launch("beyond_the_cluster", &clusters(4, 2), &[], 4 * THREADS as usize, &[], sanitize);
    for sanitize in [false, true] {
        let findings = beyond(sanitize).result.unwrap_err();
        assert_eq!(findings[0].kind, FaultKind::OutOfBounds);
        assert!(findings[0].message.contains("no block of rank 2 in a cluster of 2"), "{}", findings[0].message);
        let past = launch("past_the_tile", &clusters(2, 2), &[], 2 * THREADS as usize, &[], sanitize);
        // Without a sanitiser the dynamic shared memory follows the tile.
        match past.result {
            Ok(_) => assert!(!sanitize),
            Err(findings) => assert_eq!(findings[0].kind, FaultKind::OutOfBounds),
        }
    }
}

#[test]
fn misuse_of_the_barrier() {
    for sanitize in [false, true] {
        let run = |kernel| launch(kernel, &clusters(2, 2), &[], 2 * THREADS as usize, &[], sanitize);
        for (kernel, message) in [("arrives_twice", "second arrival"), ("waits_unasked", "without an arrival")] {
            let findings = run(kernel).result.unwrap_err();
            assert_eq!(findings[0].kind, FaultKind::InvalidBarrier);
            assert!(findings[0].message.contains(message), "{}", findings[0].message);
        }
        let findings = run("stuck").result.unwrap_err();
        assert!(findings[0].message.contains("barrier 1 is reached by 32 of 64 threads"), "{}", findings[0].message);
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let device = Device::new(DeviceConfig::default());
    let module = device.load(&Module::from_ptx(PTX, "clusters.ptx").unwrap()).unwrap();
    let buffer = Arg::from(device.alloc(4096, "out").unwrap());
    let kernel = module.kernel("arrives_twice").unwrap();
    for (config, message) in [
        (clusters(3, 2), "3 blocks along x, which is not a multiple of the cluster's 2"),
        (clusters(16, 16), "where 1 to 8 blocks are possible, or 16 if the launch allows"),
        (large_clusters(17, 17), "where 1 to 16 blocks are possible"),
        (LaunchConfig { cluster: Some([0, 1, 1]), ..clusters(2, 1) }, "where 1 to 8 blocks are possible"),
        (LaunchConfig { cluster: Some([u32::MAX; 3]), ..clusters(2, 1) }, "where 1 to 8 blocks are possible"),
    ] {
        let error = kernel.launch(&config, std::slice::from_ref(&buffer)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
