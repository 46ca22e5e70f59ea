//! `gemm`: every step of the ladder, cuBLAS and PyTorch, over sizes.

use std::time::Duration;

use common::ladder::{self, Expected};
use common::peer::Cublas;
use common::prelude::*;
use common::progress::Progress;
use common::reference::Gemm as Reference;
use common::timing::{Bench, Queue};
use phase2_conv_bn::gemm::{Epilogue, LADDER, Layout, Tuned};

use crate::limits::RooflineCost;
use crate::spec::{Context, FinishedTable, Make, TableSpec};
use crate::tables::board::{Board, Entry, Patience, Problem, faster, if_supported};
use crate::torch::{self, Mode, PeerRequest};

/// M × N × K, and how B lies in memory.
#[derive(Clone, Copy, Debug)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
    layout: Layout,
}

const fn cube(size: usize) -> Size {
    Size { m: size, n: size, k: size, layout: Layout::RowMajor }
}

/// A linear layer: `[batch, inputs]` times the transpose of `[outputs, inputs]`.
const fn linear(batch: usize, inputs: usize, outputs: usize) -> Size {
    Size { m: batch, n: outputs, k: inputs, layout: Layout::Transposed }
}

/// Ascending, so that a step that gets slow is left out of what follows.
const SIZES: [Size; 10] = [
    cube(256),
    cube(512),
    cube(1024),
    cube(2048),
    cube(4096),
    cube(8192),
    // Few tiles and a long K.
    Size { m: 256, n: 256, k: 4096, layout: Layout::RowMajor },
    linear(256, 256, 512),
    linear(1024, 784, 2048),
    linear(8192, 4096, 4096),
];

/// On the simulator: one that tiles fill, and a ragged one.
const SIMULATED: [Size; 2] = [cube(256), Size { m: 70, n: 131, k: 45, layout: Layout::Transposed }];

impl Size {
    fn name(self) -> String {
        let Size { m, n, k, layout } = self;
        match layout {
            Layout::RowMajor if m == n && n == k => format!("{m}³"),
            Layout::RowMajor => format!("{m}×{n}×{k}"),
            Layout::Transposed => format!("{m}×{n}×{k}ᵀ"),
        }
    }

    fn flops(self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

/// What the measured problem of this name costs.
pub(crate) fn roofline_cost(name: &str) -> Option<RooflineCost> {
    let size = SIZES.into_iter().find(|size| size.name() == name)?;
    let Size { m, n, k, .. } = size;
    Some(RooflineCost { flops: size.flops(), bytes: 4.0 * (m * k + k * n + m * n) as f64 })
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "gemm",
    shows: "each step of the matrix product × sizes: ms, TFLOP/s, % of cuBLAS",
    so_far: "",
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let sizes: &[Size] = if device.is_cuda() { &SIZES } else { &SIMULATED };
    let bench = Bench { queue: Queue::Warm, limit: Duration::from_secs(2), ..Bench::default() };
    let stream = device.stream();
    let cublas = if_supported(Cublas::open(&stream))?;
    let no_cublas = cublas.as_ref().err().cloned().unwrap_or_default();
    let steps = LADDER
        .iter()
        .map(|step| Ok((step.title(), if_supported(step.load(device))?)))
        .collect::<common::Result<Vec<_>>>()?;
    let tuned = Tuned::load(device)?;
    let progress = Progress::new((sizes.len() * (LADDER.len() + 3)) as u64, "gemm");
    let work: Vec<PeerRequest> = sizes
        .iter()
        .map(|&Size { m, n, k, layout }| PeerRequest::gemm([m, n, k], layout == Layout::Transposed, Mode::Eager))
        .collect();
    progress.set_message("gemm: PyTorch");
    let pytorch = torch::measure(device, &bench, &work);

    let mut board = Board::new(context, "gemm: C = A·B in f32", "M×N×K", "cuBLAS")?;
    board.note("ᵀ: B is given as [N, K], as a linear layer has its weight.");
    let mut patience = Patience::default();
    for (&size, pytorch) in sizes.iter().zip(pytorch.timings) {
        let (name, Size { m, n, k, layout }) = (size.name(), size);
        let (a, b) = (Tensor::random(&[m, k], 1), Tensor::random(&layout.shape(n, k), 2));
        let transposed = layout == Layout::Transposed;
        let expected =
            Expected::gemm(&Reference { transposed, ..Reference::new(a.as_slice()?, b.as_slice()?, m, n, k) }, 3)?;
        let (a, b) = (a.to_device(device)?, b.to_device(device)?);
        let mut c = Tensor::empty_on(device, &[m, n])?;
        let check = |step: &str, c: &mut Tensor, launch: &dyn Fn(&mut Tensor) -> Result<()>| {
            progress.set_message(format!("gemm: {step} at {name}"));
            progress.inc(1);
            ladder::run(&stream, &bench, c, &expected, launch)
        };
        let library = |c: &mut Tensor| match &cublas {
            Ok(cublas) => check("cuBLAS", c, &|c| cublas.gemm(&a, &b, transposed, 1.0, 0.0, c)),
            Err(reason) => Ok(ladder::Outcome::Unsupported(reason.clone())),
        };
        let before = library(&mut c)?;
        let mut entries = Vec::new();
        for (number, (step, gemm)) in steps.iter().enumerate() {
            let entry = match gemm {
                Ok(gemm) => patience.run(number, size.flops(), || {
                    check(step, &mut c, &|c| gemm.launch(&stream, &a, &b, layout, &Epilogue::default(), c))
                })?,
                Err(reason) => Entry::LeftOut(reason.clone()),
            };
            entries.push((step.as_str(), entry));
        }
        let chosen = check("tuned", &mut c, &|c| tuned.launch(&stream, &a, &b, layout, &Epilogue::default(), c))?;
        entries.push(("tuned", Entry::Checked(chosen)));
        entries.push(("PyTorch eager", Entry::Elsewhere(pytorch)));
        let library = Entry::Checked(faster(before, library(&mut c)?));
        let problem = Problem { name: &name, flops: size.flops(), peer_ms: library.median_ms(), no_peer: &no_cublas };
        board.row(&problem, "cuBLAS", &library);
        for (step, entry) in &entries {
            board.row(&problem, step, entry);
        }
    }
    if let Some(version) = pytorch.version {
        board.note(format!("PyTorch {version}, without TF32; cuBLAS in its default math, which is f32 throughout."));
    }
    Ok(board.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_as_the_note_says() {
        assert_eq!(cube(256).name(), "256³");
        assert_eq!(linear(1024, 784, 2048).name(), "1024×2048×784ᵀ");
        assert_eq!(cube(1024).flops(), 2.147483648e9);
    }
}
