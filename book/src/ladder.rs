//! What the simulator counts for each step of the GEMM ladder: the tables `phase2-conv-bn/gemm@sim` and `…/gemm-transposed@sim`.

use common::device::SimOptions;
use common::prelude::*;
use common::ptx_sim::Counters;
use common::table::{Column, Table};
use phase2_conv_bn::gemm::{Epilogue, LADDER, Layout};

/// M = N = K: 2 × 2 of the largest tiles but one.
const SIZE: usize = 256;

/// A row a step.
///
/// # Errors
/// What the simulator reports.
pub fn counts(layout: Layout) -> Result<Table> {
    let columns = [
        Column::text("step"),
        Column::number("lane M", 2),
        Column::number("sectors a request", 1),
        Column::number("shared k", 1),
        Column::number("conflicts k", 1),
    ];
    let mut table = Table::new(format!("GEMM, {SIZE} × {SIZE} × {SIZE}"), columns);
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    let stream = device.stream();
    let a = Tensor::random(&[SIZE, SIZE], 1).to_device(&device)?;
    let b = Tensor::random(&layout.shape(SIZE, SIZE), 2).to_device(&device)?;
    let mut c = Tensor::empty_on(&device, &[SIZE, SIZE])?;
    for step in LADDER {
        step.load(&device)?.launch(&stream, &a, &b, layout, &Epilogue::default(), &mut c)?;
        stream.synchronize()?;
        let mut sum = Counters::default();
        let profiles = device.as_sim().map(|sim| sim.take_profiles()).unwrap_or_default();
        profiles.iter().for_each(|profile| sum += profile.counters);
        let shared = sum.shared_load_wavefronts + sum.shared_store_wavefronts + sum.async_copy_wavefronts;
        let conflicts = sum.shared_load_conflicts + sum.shared_store_conflicts;
        table.row([
            format!("{:02} {}", step.number(), step.name()).into(),
            (sum.lane_instructions as f64 / 1e6).into(),
            (sum.global_load_sectors as f64 / sum.global_load_requests.max(1) as f64).into(),
            (shared as f64 / 1e3).into(),
            (conflicts as f64 / 1e3).into(),
        ]);
    }
    Ok(table)
}
