//! Grids of several devices that run together: the results of each kernel of `kernels/joint.cu`, and the races between devices
//! that the sanitiser finds.

use ptx_sim::{
    Arg, Device, DeviceConfig, DevicePtr, Fault, FaultKind, Kernel, LaunchConfig, LaunchError, Module, Observation,
    Observe,
};

const PTX: &str = include_str!("../kernels/joint.ptx");
const CU: &str = include_str!("../kernels/joint.cu");

/// The memory of several devices, with the module loaded once for each.
struct Host {
    memory: Device,
    ranks: u32,
}

impl Host {
    fn new(ranks: u32, sanitize: bool) -> Self {
        Self { memory: Device::new(DeviceConfig { sanitize, ..Default::default() }), ranks }
    }

    fn kernels(&self, name: &str) -> Vec<Kernel> {
        let module = Module::from_ptx(PTX, "joint.ptx").unwrap();
        (0..self.ranks).map(|_| self.memory.load(&module).unwrap().kernel(name).unwrap()).collect()
    }

    fn zeros(&self, words: u64, label: &str) -> DevicePtr {
        let pointer = self.memory.alloc(4 * words, label).unwrap();
        self.memory.write(pointer, &vec![0; 4 * words as usize]).unwrap();
        pointer
    }

    fn words(&self, pointer: DevicePtr, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count];
        self.memory.read(pointer, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    /// Runs the kernel with these arguments of each rank, on blocks of 64.
    fn launch(&self, name: &str, grid: u32, args: &[Vec<Arg>]) -> Result<Observation, LaunchError> {
        let kernels = self.kernels(name);
        let grids: Vec<(&Kernel, &[Arg])> =
            kernels.iter().zip(args).map(|(kernel, args)| (kernel, &args[..])).collect();
        let config =
            LaunchConfig { grid: [grid, 1, 1], block: [64, 1, 1], budget: Some(5_000_000), ..Default::default() };
        Kernel::observe_together(&grids, &config, &Observe::default())
    }

    /// Launches an exchange over `grid` blocks of each device; returns the resulting sums, and the findings.
    fn exchange(&self, name: &str, grid: u32) -> (Vec<f32>, Vec<Fault>) {
        let values: Vec<DevicePtr> = (0..self.ranks).map(|_| self.zeros(1, "value")).collect();
        let flags: Vec<DevicePtr> = (0..self.ranks).map(|_| self.zeros(1, "flag")).collect();
        let sums: Vec<DevicePtr> = (0..self.ranks).map(|_| self.zeros(grid.into(), "sum")).collect();
        let mut peers = Vec::new();
        for pointers in [&values, &flags] {
            let mut all = pointers.clone();
            all.resize(4, DevicePtr(0));
            peers.extend(all.iter().flat_map(|pointer| pointer.0.to_le_bytes()));
        }
        let args: Vec<Vec<Arg>> = (0..self.ranks)
            .map(|rank| vec![Arg::from_bytes(&peers), rank.into(), self.ranks.into(), sums[rank as usize].into()])
            .collect();
        let observation = self.launch(name, grid, &args).unwrap();
        let of_all = sums.iter().flat_map(|sum| self.words(*sum, grid as usize)).map(f32::from_bits).collect();
        (of_all, observation.findings)
    }
}

fn lines(findings: &[Fault]) -> Vec<(FaultKind, &str)> {
    let line = |finding: &Fault| CU.lines().nth(finding.line.unwrap() as usize - 1).unwrap().trim();
    findings.iter().map(|finding| (finding.kind, line(finding))).collect()
}

/// All devices wait for each other and get the same sum, without findings, with or without a sanitiser.
#[test]
fn devices_exchange_values() {
    for sanitize in [false, true] {
        for ranks in 1..=4 {
            let (sums, findings) = Host::new(ranks, sanitize).exchange("exchange", 3);
            let expected: f32 = (0..ranks).map(|rank| 1.5 + rank as f32).sum();
            assert_eq!(sums, vec![expected; 3 * ranks as usize], "{ranks} devices");
            assert_eq!(findings, [], "{ranks} devices");
        }
    }
}

/// More blocks than may be under way: the grids take turns, so that the blocks which others wait for come.
#[test]
fn every_grid_is_under_way() {
    let (sums, _) = Host::new(4, false).exchange("exchange", 1500);
    assert!(sums.iter().all(|sum| *sum == 1.5 + 2.5 + 3.5 + 4.5));
}

/// A fence of device scope hands nothing over to another device. Within one device it does.
#[test]
fn a_fence_of_device_scope_is_too_narrow() {
    let (sums, findings) = Host::new(2, true).exchange("exchange_on_one_device", 1);
    assert_eq!(sums, [4.0; 2]);
    assert_eq!(lines(&findings), [(FaultKind::GlobalRace, "total += *peers.value[peer];")]);
    let text = findings[0].render(Some(CU), false);
    let devices = [findings[0].device, findings[0].other.as_ref().unwrap().device].map(Option::unwrap);
    assert_ne!(devices[0], devices[1]);
    for part in [&format!("device {}, block (0, 0, 0)", devices[0]), "__threadfence_system()"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(Host::new(1, true).exchange("exchange_on_one_device", 2).1, []);
}

/// An atomic of device scope is not atomic for the atomics of another device.
#[test]
fn atomics_have_a_scope() {
    for (name, expected) in [("count_on_all", 0), ("count_on_one_device", 1)] {
        let host = Host::new(3, true);
        let count = host.zeros(1, "count");
        let findings = host.launch(name, 4, &vec![vec![count.into()]; 3]).unwrap().findings;
        assert_eq!(findings.len(), expected, "{name}: {findings:?}");
        assert_eq!(host.words(count, 1), [12]);
    }
    let host = Host::new(1, true);
    let count = host.zeros(1, "count");
    assert_eq!(host.launch("count_on_one_device", 4, &[vec![count.into()]]).unwrap().findings, []);
}

/// Each load of a module has its variables.
#[test]
fn variables_are_each_devices_own() {
    let host = Host::new(3, true);
    let outs: Vec<DevicePtr> = (0..3).map(|_| host.zeros(1, "out")).collect();
    let args: Vec<Vec<Arg>> = (0..3u32).map(|rank| vec![(10 * rank).into(), outs[rank as usize].into()]).collect();
    assert_eq!(host.launch("own_variable", 2, &args).unwrap().findings, []);
    let values: Vec<u32> = outs.iter().map(|out| host.words(*out, 1)[0]).collect();
    assert_eq!(values, [7, 17, 27]);
}

/// A wait for a device that never raises its flag ends.
#[test]
fn a_wait_in_vain_is_a_deadlock() {
    let host = Host::new(2, false);
    let kernels = host.kernels("exchange");
    let words = host.zeros(16, "values, flags and sums");
    let peers: Vec<u8> = (0..8).flat_map(|word| words.offset(4 * word).0.to_le_bytes()).collect();
    let config = LaunchConfig { block: [64, 1, 1], budget: Some(100_000), ..Default::default() };
    // Both are rank 0 of 2.
    let args = [Arg::from_bytes(&peers), 0u32.into(), 2u32.into(), words.offset(4 * 8).into()];
    let grids: Vec<(&Kernel, &[Arg])> = kernels.iter().map(|kernel| (kernel, &args[..])).collect();
    match Kernel::observe_together(&grids, &config, &Observe::default()) {
        Err(LaunchError::Fault(fault)) => assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}"),
        other => panic!("{other:?}"),
    }
}

/// Grids of different kernels are refused.
#[test]
fn grids_are_of_one_kernel() {
    let host = Host::new(1, false);
    let (one, other) = (host.kernels("count_on_all"), host.kernels("count_on_one_device"));
    let args = [Arg::from(host.zeros(1, "count"))];
    let grids = [(&one[0], &args[..]), (&other[0], &args[..])];
    let refused = Kernel::observe_together(&grids, &LaunchConfig::default(), &Observe::default());
    assert!(refused.unwrap_err().to_string().contains("of one kernel"));
    assert!(Kernel::observe_together(&[], &LaunchConfig::default(), &Observe::default()).is_err());
}
