//! Blocks that take the place of others (`clusterlaunchcontrol`): the kernels of `kernels/cancel.cu`.

use ptx_sim::{Arg, Asynchrony, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

const PTX: &str = include_str!("../kernels/cancel.ptx");
const CU: &str = include_str!("../kernels/cancel.cu");

/// Launches a kernel in a grid; returns the words of its buffers, one for each block and `more` of one word.
fn launch(
    kernel: &str,
    grid: [u32; 3],
    (more, cluster): (usize, Option<[u32; 3]>),
    device: DeviceConfig,
    asynchrony: Asynchrony,
) -> Result<Vec<Vec<u32>>, Vec<Fault>> {
    let device = Device::new(device);
    let module = device.load(&Module::from_ptx(PTX, "cancel.ptx").unwrap()).unwrap();
    let blocks = grid.iter().product::<u32>() as usize;
    let buffers: Vec<_> = std::iter::once(blocks)
        .chain(std::iter::repeat_n(1, more))
        .map(|words| {
            let pointer = device.alloc(words as u64 * 4, "out").unwrap();
            device.write(pointer, &vec![0; words * 4]).unwrap();
            (pointer, words)
        })
        .collect();
    let args: Vec<Arg> = buffers.iter().map(|(pointer, _)| Arg::from(*pointer)).collect();
    let config =
        LaunchConfig { grid, cluster, block: [64, 1, 1], asynchrony, budget: Some(20_000_000), ..Default::default() };
    match module.kernel(kernel).unwrap().launch(&config, &args) {
        Ok(_) => Ok(buffers
            .iter()
            .map(|(pointer, words)| {
                let mut bytes = vec![0; words * 4];
                device.read(*pointer, &mut bytes).unwrap();
                bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
            })
            .collect()),
        Err(LaunchError::Findings(findings)) => Err(findings),
        Err(LaunchError::Fault(fault)) => Err(vec![*fault]),
        Err(other) => panic!("{kernel}: {other}"),
    }
}

#[test]
fn each_block_is_done_once_by_whoever_does_it() {
    let mut began = Vec::new();
    for workers in [1, 4] {
        for asynchrony in [Asynchrony::Late, Asynchrony::Early, Asynchrony::Seeded(3)] {
            for sanitize in [false, true] {
                let device = DeviceConfig { workers, sanitize, ..Default::default() };
                for grid in [[1, 1, 1], [37, 1, 1], [3, 5, 7]] {
                    let out = launch("each_once", grid, (1, None), device.clone(), asynchrony)
                        .unwrap_or_else(|f| panic!("{f:?}"));
                    assert!(out[0].iter().all(|&count| count == 1), "{grid:?}, {workers} workers: {:?}", out[0]);
                    began.push(out[1][0]);
                }
                let out = launch("each_once_in_pairs", [26, 3, 2], (0, Some([2, 1, 1])), device, asynchrony);
                let out = out.unwrap_or_else(|f| panic!("{f:?}"));
                assert!(out[0].iter().all(|&count| count == 1), "pairs, {workers} workers: {:?}", out[0]);
            }
        }
    }
    // The first two begin in any case; with one worker no other does.
    let (one, several) = began.split_at(began.len() / 2);
    assert!(one.chunks(3).all(|of_grids| of_grids == [1, 2, 2]), "{one:?}");
    assert!(several.iter().all(|&count| (1..=37).contains(&count)), "{several:?}");
}

/// The finding in a mistaken kernel of seven blocks on one worker.
fn finding(kernel: &str) -> Fault {
    let device = DeviceConfig { workers: 1, sanitize: true, ..Default::default() };
    let mut findings = launch(kernel, [7, 1, 1], (0, None), device, Asynchrony::Late).expect_err(kernel);
    findings.swap_remove(0)
}

#[test]
fn mistakes_are_found() {
    let again = finding("asks_again");
    assert_eq!(again.kind, FaultKind::InvalidCopy);
    assert_eq!(again.message, "another cluster is to be cancelled after the answer that none can be");
    assert_eq!(CU.lines().nth(again.line.unwrap() as usize - 1).map(str::trim), Some("ask(control);"));
    assert_eq!(finding("reads_early").kind, FaultKind::CopyInFlight);

    // The last block is told that no other is left.
    let any = finding("takes_any");
    assert_eq!(any.kind, FaultKind::OutOfBounds, "{any:?}");
}
