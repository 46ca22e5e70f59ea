//! Estimates all-reduces over links that this machine does not have: a model, never a measurement.
//!
//! The α–β model (Hockney, 1994): a message of n bytes takes α + n / B on a link with latency α and bandwidth B. An algorithm is as
//! many of them one after the other as it has steps; messages on different links at the same time cost nothing extra. So the model
//! knows no contention, no kernel's start, and no protocol: it is a floor with a latency.

/// A link between two ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Name in tables.
    pub name: &'static str,
    /// α: seconds from the decision to send until the first byte is used on the other side.
    pub latency: f64,
    /// B: bytes/s that a rank sends while it receives as many.
    pub bandwidth: f64,
}

/// NVLink 4 between the GPUs of a host, 450 GB/s in each direction by the datasheet; the latency is assumed.
pub const NVLINK: Link = Link { name: "NVLink 4", latency: 2e-6, bandwidth: 450e9 };

/// A network card of 400 Gbit/s for each GPU, as in hosts built for training; the latency is assumed.
pub const CARD_PER_GPU: Link = Link { name: "400 Gbit/s per GPU", latency: 6e-6, bandwidth: 50e9 };

/// A network card of 100 Gbit/s that the 8 GPUs of a host share; the latency is assumed.
pub const SHARED_CARD: Link = Link { name: "100 Gbit/s per host of 8", latency: 20e-6, bandwidth: 12.5e9 / 8.0 };

impl Link {
    // ANCHOR: ring
    /// Seconds of a message of this many bytes.
    pub fn message(&self, bytes: f64) -> f64 {
        self.latency + bytes / self.bandwidth
    }

    /// Seconds of a ring that leaves each of `ranks` with one part of the sum, or gathers the parts on all: `ranks` − 1 steps with a
    /// part each.
    pub fn half_ring(&self, ranks: usize, bytes: f64) -> f64 {
        (ranks - 1) as f64 * self.message(bytes / ranks as f64)
    }

    /// Seconds of an all-reduce in a ring: every rank sends 2·(p − 1)/p of its bytes, in 2·(p − 1) steps.
    pub fn ring(&self, ranks: usize, bytes: f64) -> f64 {
        2.0 * self.half_ring(ranks, bytes)
    }
    // ANCHOR_END: ring

    /// Seconds of an all-reduce up a tree and down again, in enough pieces that the levels work at the same time: log₂ p
    /// latencies each way, and the bytes once each way.
    pub fn tree(&self, ranks: usize, bytes: f64) -> f64 {
        let levels = f64::from(ranks.next_power_of_two().trailing_zeros());
        if ranks < 2 { 0.0 } else { 2.0 * (levels * self.latency + bytes / self.bandwidth) }
    }
}

// ANCHOR: levels
/// Seconds of an all-reduce over `hosts` with `gpus` each: the parts of the sum inside of each host, each part over the hosts by the
/// faster of ring and tree, the parts together inside of each host.
pub fn two_levels([hosts, gpus]: [usize; 2], bytes: f64, inside: &Link, between: &Link) -> f64 {
    let part = bytes / gpus as f64;
    inside.ring(gpus, bytes) + between.ring(hosts, part).min(between.tree(hosts, part))
}
// ANCHOR_END: levels

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { name: "round", latency: 1.0, bandwidth: 10.0 };

    #[test]
    fn each_algorithm_takes_what_it_takes_by_hand() {
        // Two ranks, 20 bytes: one step of 10 bytes to reduce, one to gather.
        assert_eq!(LINK.ring(2, 20.0), 2.0 * (1.0 + 1.0));
        // Four ranks: 2 · 3 steps of 5 bytes.
        assert_eq!(LINK.ring(4, 20.0), 6.0 * (1.0 + 0.5));
        // Four ranks: two levels up, two down, the bytes each way.
        assert_eq!(LINK.tree(4, 20.0), 2.0 * (2.0 + 2.0));
        assert_eq!(LINK.tree(5, 0.0), 2.0 * 3.0);
        for alone in [LINK.ring(1, 20.0), LINK.tree(1, 20.0), two_levels([1, 1], 20.0, &LINK, &LINK)] {
            assert_eq!(alone, 0.0);
        }
        // One host is its ring, hosts with one GPU the faster of ring and tree.
        assert_eq!(two_levels([1, 4], 20.0, &LINK, &NVLINK), LINK.ring(4, 20.0));
        assert_eq!(two_levels([8, 1], 20.0, &NVLINK, &LINK), LINK.tree(8, 20.0));
    }

    #[test]
    fn a_ring_has_the_bandwidth_and_a_tree_the_latency() {
        let (small, large) = (1024.0, 1e9);
        assert!(CARD_PER_GPU.tree(64, small) < CARD_PER_GPU.ring(64, small) / 5.0);
        assert!(CARD_PER_GPU.ring(8, large) < CARD_PER_GPU.tree(8, large));
        let floor = 2.0 * 7.0 / 8.0 * large / NVLINK.bandwidth;
        assert!((NVLINK.ring(8, large) / floor - 1.0).abs() < 0.01);
    }
}
