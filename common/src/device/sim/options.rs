//! How large a simulated device is, and what it counts.

/// Properties of a simulated device.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// Bytes of device memory.
    pub memory: u64,
    /// Threads that execute blocks; 0 stands for all cores.
    pub workers: usize,
    /// Warp instructions after which a launch is stopped as endless; `None` lets it run.
    pub budget: Option<u64>,
    /// Every launch is sanitised: races, reads of unwritten memory, mismatched barriers … are errors
    /// ([`Error::Findings`](crate::Error::Findings)), and so is work on several streams at the same bytes that nothing orders
    /// ([`Error::UnorderedStreams`](crate::Error::UnorderedStreams)). Several times slower, on one core.
    pub sanitize: bool,
    /// With `sanitize`: what the PTX memory model does not guarantee is a finding, even if today's GPUs bear it.
    pub strict: bool,
    /// Every launch is profiled: [`SimDevice::take_profiles`](super::SimDevice::take_profiles).
    pub profile: bool,
    /// When asynchronous copies and products are made. A kernel must be right for every choice.
    pub asynchrony: ptx_sim::Asynchrony,
    /// Whether kernels' output goes to standard error after each run, separate from tables, instead of being kept for
    /// [`Device::take_output`](super::super::Device::take_output).
    pub prints: bool,
}

impl Default for SimOptions {
    /// 8 GiB, every core, copies as late as PTX allows, and 2³⁶ warp instructions per launch (about 10 minutes on two cores), or the
    /// value of `WARP_SIM_BUDGET`.
    fn default() -> SimOptions {
        let budget = std::env::var("WARP_SIM_BUDGET").ok().and_then(|value| value.parse().ok()).unwrap_or(1 << 36);
        SimOptions {
            memory: 8 << 30,
            workers: 0,
            budget: Some(budget),
            sanitize: false,
            strict: false,
            profile: false,
            asynchrony: ptx_sim::Asynchrony::default(),
            prints: false,
        }
    }
}

/// Counts of the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Kernel launches.
    pub launches: u64,
    /// Instructions, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions, counted once per active lane.
    pub lane_instructions: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            launches: self.launches + other.launches,
            warp_instructions: self.warp_instructions + other.warp_instructions,
            lane_instructions: self.lane_instructions + other.lane_instructions,
        }
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            launches: self.launches - earlier.launches,
            warp_instructions: self.warp_instructions - earlier.warp_instructions,
            lane_instructions: self.lane_instructions - earlier.lane_instructions,
        }
    }
}
